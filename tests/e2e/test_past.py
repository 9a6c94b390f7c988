"""`dibs timeline` and `dibs stats --since`: the past of a board, in a terminal of any width."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs.cli.render import Paint
from dibs.cli.timeline import picture
from dibs.model.dashboard import Window
from tests.e2e.conftest import Dibs

LEGEND = "▶ 1 live   ◆ 1 refused   ✓ 1 done   ✕ 1 failed"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def past(template: Dibs) -> Dibs:
    """A board with a run that is done, one that failed, one that is live, and a refused claim."""
    return template


def test_a_lane_has_a_bar_for_each_run_and_a_mark_for_each_refusal(past: Dibs) -> None:
    said = past.ok("timeline").splitlines()
    coder = [line for line in said if line.startswith("coder s1")]
    assert len(coder) == 1, "a label stands once, also if runs overlap"
    assert [line for line in said if "◆" in line and line.startswith("s2")]
    assert said[-1] == LEGEND


def test_lanes_are_those_of_items_or_agents_too(past: Dibs) -> None:
    lanes = {line.split()[0] for line in past.ok("timeline", "--by", "item").splitlines()[:-2]}
    assert lanes == {"a", "b", "e"}
    assert past.ok("timeline", "--by", "agent").startswith("coder ")
    assert "no run" in past("timeline", "--agent", "nobody").stderr


@pytest.mark.parametrize("columns", [30, 40, 80, 160])
def test_the_picture_fits_the_terminal_and_says_the_same_without_colours(past: Dibs, columns: int) -> None:
    for command in ("dibs timeline", "dibs stats --since 10m"):
        painted = past.terminal(command, columns=columns)
        plain = past.terminal(command, columns=columns, NO_COLOR="1")
        assert COLOUR.search(painted)
        assert not COLOUR.search(plain)
        assert max(map(len, plain.splitlines())) <= columns
        assert set("▶◆✓✕" if "timeline" in command else "▁█") <= set(plain)


def test_programs_get_the_window_and_the_series(past: Dibs) -> None:
    window = past.json("timeline")
    assert sorted(run[0] for run in window["runs"]) == ["a", "b", "e"]
    assert [refused[1:] for refused in window["refused"]] == [["b", "s2", "TASK_ALREADY_CLAIMED"]]
    series = past.json("stats", "--since", "10m")
    assert sum(series["events"]["claimed"]) == 3


def test_what_runs_have_cost_is_a_line_of_the_figures(dibs: Dibs) -> None:
    dibs.ok("add", "x", "--id", "x")
    dibs.ok("claim", "x")
    dibs.ok("done", "x", "--cost", json.dumps({"usd": 1.25, "tokens": 4_300_000}))
    said = dibs.ok("stats", "--since", "1h")
    assert re.search(r"usd .*█.* 1\.25 in all", said)
    assert re.search(r"tokens .*█.* 4,300,000 in all", said)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("timeline", "--by", "phase"), "by"),
        (("timeline", "--since", "0s"), "since"),
        (("timeline", "--since", "4000d"), "since"),
        (("timeline", "--limit", "0"), "limit"),
        (("stats", "--since", "0s"), "since"),
        (("stats", "--since", "soon"), "since"),
    ],
)
def test_what_cannot_be_drawn_is_refused(past: Dibs, words: tuple[str, ...], field: str) -> None:
    code, error = past.refused(*words)
    assert code in (1, 2)
    assert error["field"] in (field, "arguments")
    assert "e+" not in error["message"]


@pytest.mark.parametrize(
    ("since", "form"),
    [("5s", r"\d\d:\d\d:\d\d"), ("3d", r"\d\d-\d\d"), ("300d", r"\d{4}-\d\d"), ("3650d", r"\d{4}-\d\d")],
)
def test_an_axis_says_on_which_day_or_in_which_year(past: Dibs, since: str, form: str) -> None:
    assert re.search(rf"{form} .*now", past.ok("timeline", "--since", since, "--session", "s1").splitlines()[-2])


def test_times_are_those_of_the_board_whatever_this_machine_thinks(
    past: Dibs, tmp_path: Path, ended: Callable[[subprocess.Popen[str]], subprocess.Popen[str]]
) -> None:
    served = ended(past.start("serve", "--port", "0", "--quiet", "--json"))
    assert served.stdout is not None
    url = json.loads(served.stdout.readline())["serving"]["url"]
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time\nclock, ahead = time.time, float(os.environ['AHEAD'])\ntime.time = lambda: clock() + ahead\n"
    )
    for ahead in ("-7200", "7200"):
        wrong = {"PYTHONPATH": str(tmp_path), "AHEAD": ahead, "DIBS_STORE": url}
        for since in ([], ["--since", "10m"]):
            assert past.ok("timeline", *since, environment=wrong).endswith(LEGEND + "\n")
        series = past.json("stats", "--since", "10m", environment=wrong)
        assert sum(series["events"]["claimed"]) == 3


def test_a_live_bar_that_begins_after_now_is_drawn() -> None:
    window = Window(
        from_at=0, to_at=60_000, runs=(["a", 1, "s", "coder", 90_000, None, None],), refused=(), truncated=False
    )
    lines, _ = picture(window, 0, 60_000, by="session", trims=True, limit=9, columns=60, paint=Paint(False))
    assert lines[0].endswith("▶")
    assert lines[1].endswith("now")
