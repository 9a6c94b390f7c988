"""Text in columns."""

from __future__ import annotations

import random

import pytest

from dibs.cli import render

SIGNS = "ab c\u0301\u4e16\u754c\U0001f600 e\u0308"


def test_what_is_cut_is_as_long_as_it_can_be() -> None:
    draw = random.Random(7)
    for _ in range(2000):
        text = "".join(draw.choices(SIGNS, k=draw.randrange(12)))
        columns = draw.randrange(-1, 12)
        found = render.cut(text, columns)
        if render.width(text) <= columns:
            assert found == text
        elif columns <= 0:
            assert found == ""
        else:
            kept = max((text[:end] for end in range(len(text)) if render.width(text[:end]) < columns), key=len)
            assert found == kept.rstrip() + render.ELLIPSIS
            assert render.width(found) <= columns


def test_a_long_text_is_looked_at_once_and_not_again_for_each_sign_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, width = 0, render.width

    def counted(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return width(text)

    monkeypatch.setattr(render, "width", counted)
    text = "\u4e16" * 20_000
    assert render.cut(text, 81) == "\u4e16" * 40 + render.ELLIPSIS
    assert measured < 2 * len(text)
