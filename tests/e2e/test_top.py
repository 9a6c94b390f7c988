"""`dibs top` as a program: in a terminal of sixteen colours, without one, and without Textual."""

from __future__ import annotations

import os
import signal
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


def test_a_stopped_screen_is_drawn_again_and_a_signal_gives_the_terminal_back(dibs: Dibs) -> None:
    dibs.ok("add", "Login fails", "--id", "fix-login", "--needs-approval")
    script = "set -m; sh -c 'echo pid $$; exec dibs top'; echo it sleeps; fg; echo once more; fg; echo ended with $?"
    with Terminal(f"{script}; stty -a", dibs.folder, dibs.environment) as terminal:
        terminal.read_until("approve")
        pid = int(terminal.text.partition("pid ")[2].split()[0])
        terminal.type("\x1a")
        terminal.text = terminal.read_until("it sleeps").partition("it sleeps")[2]
        for drawn in ("dibs ", "Needs you", "fix-login", "approve"):
            terminal.read_until(drawn)
        # In a question, the key must not go into the text.
        terminal.type("n")
        terminal.read_until("What is to be done?")
        terminal.type("\x1a")
        terminal.text = terminal.read_until("once more").partition("once more")[2]
        terminal.read_until("What is to be done?")
        os.kill(pid, signal.SIGTERM)
        said = terminal.read_to_end()
    assert "ended with 143" in said
    assert said.rindex("\x1b[?1049l") > said.rindex("\x1b[?1049h")
    assert said.rindex("\x1b[?1003l") > said.rindex("\x1b[?1003h"), "the mouse is reported no more"
    assert " -icanon" not in said
    assert " -echo " not in said


def test_a_bug_ends_it_with_one_line(dibs: Dibs, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from dibs.cli.top.panes import Sessions\n"
        "def heading(self):\n"
        "    secret = 'dibs_key_1'\n"
        "    raise RuntimeError('no \\x1b[31m colour')\n"
        "Sessions.heading = heading\n"
    )
    environment = {**dibs.environment, "PYTHONPATH": str(tmp_path)}
    with Terminal("dibs top; echo ended with $?", dibs.folder, environment) as terminal:
        terminal.read_until("live")
        terminal.type("gs")
        said = terminal.read_to_end()
    after = said.rpartition("\x1b[?1049l")[2]
    assert "dibs: dibs top ended because of a bug: RuntimeError: no \ufffd[31m colour (sitecustomize.py:4)\n" in after
    assert "ended with 1\n" in after
    assert "dibs_key_1" not in said
    assert after.count("\n") == 2


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
