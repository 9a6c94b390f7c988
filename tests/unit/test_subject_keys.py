"""Which keys are one subject: those of one issue of GitHub, and those that differ in their Unicode form alone."""

from __future__ import annotations

import pytest

from dibs import check
from dibs.errors import Invalid

ISSUE = "github:acme/shop#12"


@pytest.mark.parametrize(
    "key",
    [
        ISSUE,
        f" {ISSUE}\n",
        "github:Acme/Shop#12",
        "https://github.com/acme/shop/issues/12",
        "https://github.com/Acme/SHOP/issues/12/",
        "https://github.com/acme/shop/issues/12?q=1#issuecomment-3",
        "http://github.com/acme/shop/pull/12/files",
    ],
)
def test_keys_of_one_issue_are_one(key: str) -> None:
    assert check.subject(key) == ISSUE


@pytest.mark.parametrize(
    "key",
    [
        "https://github.com/acme/shop",
        "https://github.com/acme/shop/issues",
        "https://github.com/acme/shop/issues/new",
        "https://github.com/acme/shop/issues/١٢",
        "https://github.com.example.org/acme/shop/issues/12",
        "https://git.example.org/Acme/Shop/issues/12/",
        "see https://github.com/acme/shop/issues/12",
        "github:acme/shop/workflows/CI@Fix#1",
        "github:acme/shop#12@2026-11-16T10:00:00Z",
        "JIRA-12",
    ],
)
def test_every_other_key_is_as_it_is_written(key: str) -> None:
    assert check.subject(key) == key
    assert check.subject(check.subject(key)) == key


def test_two_unicode_forms_of_a_text_are_one() -> None:
    assert check.subject("cafe\u0301") == check.subject("caf\u00e9") == "caf\u00e9"


@pytest.mark.parametrize("key", ["a\nb", "a\tb", "a\0b", "a\u200bb", "a\u202eb", "a\ud800", "x" * 501, 12, ["a"]])
def test_what_is_no_line_is_refused(key: object) -> None:
    with pytest.raises(Invalid) as refused:
        check.subject(key)
    assert refused.value.facts["field"] == "subject"


@pytest.mark.parametrize("key", [None, "", "  "])
def test_nothing_is_no_subject(key: object) -> None:
    assert check.subject(key) is None
