"""Bodies that are found wrong: only the first mistake is described, whatever their number."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from dibs.errors import Invalid
from dibs.server.api import bodies, verb_routes
from dibs.verbs import BY_NAME

MANY = 45_000


@pytest.mark.parametrize(
    ("items", "detail"),
    [
        ([{}] * MANY, "items.0.title: Field required"),
        ([{"title": "x"}, *[{"title": 1}] * MANY], "items.1.title: Input should be a valid string"),
        ([1] * 2 * MANY, "items.0: Input should be a valid dictionary"),
        ([{"title": "x", "labels": [1] * 2 * MANY}], "items.0.labels.0: Input should be a valid string"),
        ([{"title": "x", **{f"field-{n}": 1 for n in range(MANY)}}], "an item has at most 100 fields"),
    ],
)
def test_of_many_wrong_items_one_is_described(items: list[Any], detail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = verb_routes.model_of(BY_NAME["add_many"])
    assert model is not None
    counts: list[int] = []
    validate: Callable[[Any], Any] = model.model_validate

    def counted(data: Any) -> Any:
        try:
            return validate(data)
        except ValidationError as error:
            counts.append(error.error_count())
            raise

    monkeypatch.setattr(model, "model_validate", counted)
    with pytest.raises(Invalid, match=detail):
        bodies.small_arguments(json.dumps({"items": items}).encode(), model)
    assert counts in ([], [1])
