"""`dibs top` as a program: in a terminal of sixteen colours, without one, and without Textual."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import Dibs
from tests.e2e.terminal import Terminal

NEEDS_TERMINAL = "dibs top needs a terminal; dibs who and dibs events --follow print lines"


def test_a_terminal_of_sixteen_colours(dibs: Dibs) -> None:
    dibs.ok("add", "Login fails", "--id", "fix-login", "--needs-approval")
    with Terminal("dibs top; echo ended with $?", dibs.folder, dibs.environment) as terminal:
        terminal.read_until("fix-login")
        terminal.read_until("approve")
        terminal.type("a")
        terminal.read_until("y does it")
        terminal.type("y")
        terminal.read_until("fix-login: approve")
        terminal.type("q")
        said = terminal.read_to_end()
    assert "ended with 0" in said
    assert "38;2;" not in said, "a colour that the terminal may not have"
    assert "48;2;" not in said
    assert "\x1b[?1049l" in said, "the screen that was there before is shown again"
    assert dibs.json("show", "fix-login")["item"]["status"] == "ready"


def test_without_a_terminal_it_says_what_else_there_is(dibs: Dibs) -> None:
    done = dibs("top")
    assert (done.returncode, done.stdout) == (2, "")
    assert NEEDS_TERMINAL in done.stderr
    said = dibs.terminal("dibs top; echo ended with $?", TERM="dumb")
    assert NEEDS_TERMINAL in said
    assert "ended with 2" in said
    assert "\x1b" not in said


def test_without_textual_it_says_how_to_get_it(dibs: Dibs, tmp_path: Path) -> None:
    (tmp_path / "textual.py").write_text("raise ModuleNotFoundError(\"No module named 'textual'\", name='textual')\n")
    done = dibs.shell("dibs top", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == "dibs: dibs top needs Textual; install it with: pip install 'calldibs[top]'\n"
