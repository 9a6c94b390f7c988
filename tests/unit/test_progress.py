"""The line that a long command shows: how far it is, of how much, and how long that will take."""

from __future__ import annotations

import time

import pytest

from dibs.cli.progress import STEP, Progress


def test_of_records_the_time_left_is_that_of_those_before() -> None:
    progress = Progress("copied", 50_000, is_estimate=True, is_shown=False)
    progress.advance(12_500)
    assert progress.line(8.0) == "copied 12,500 of about 50,000 records, 25%, 24s left"


def test_of_steps_the_time_left_is_about_that_of_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    progress = Progress("syncing", unit=STEP, is_shown=False)
    progress.hear("reading the files", 1, 5)
    assert progress.line(2.0) == "reading the files (step 1 of 5), 2s"
    monkeypatch.setattr(time, "monotonic", lambda: 103.0)
    progress.hear("fetching", 2, 5)
    monkeypatch.setattr(time, "monotonic", lambda: 104.0)
    assert progress.line(1.0) == "fetching (step 2 of 5), 1s, about 12s left"
