"""A hundred bad inputs and what dibs answers, in one file that a person can read in one sitting: bad_lines.txt.

    python -m tests.e2e.bad_lines

writes the file again. Read the difference before you commit it: each answer has to say what is wrong and what to type.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

#: Calls dibs in a folder, with these variables.
Run = Callable[[list[str], Path, dict[str, str]], "subprocess.CompletedProcess[str]"]

TITLE = "Bad inputs and what dibs answers, with the exit code in brackets. tests/e2e/bad_lines.py writes this file."
FILE = Path(__file__).with_name("bad_lines.txt")
#: What is on the board, by whom. Session s1 of coder types the bad lines, and holds `mine`.
BOARD = """
add "Fix login" --id fix-login --type bug --priority high
add "Fix logout" --id fix-logout --type bug
add "Tell users" --id tell-users --needs fix-login
add "Mine" --id mine
add "Theirs" --id theirs
add "A draft" --id draft --needs-approval
add "Over" --id over
add "Parked" --id parked
claim mine
claim over
done over
park parked
claim theirs --session s2 --agent reviewer
"""
#: The bad lines, in groups.
LINES = {
    "Words": """
        bogus
        cliam fix-login
        cancle fix-login
        delete fix-login
        undo
        sync
        session
        session stop s1
        agent
        key delete abc
        vault
        help bogus
        assign fix-login coder
        deny fix-login
    """,
    "Options": """
        claim fix-login --tl 5m
        claim fix-login --force
        claim fix-login --ttl
        claim fix-login --ttl=
        claim fix-login --soft=yes
        claim
        claim fix-login mine
        add Fix the login
        add -5 degrees
        add "Fix" --assignee bob
        edit mine --status done
        edit mine
        edit mine --label a --add-label b
        edit mine --no-needs --needs fix-login
        list ready
        list --status opened
        list --sort size
        list --mine --search x
        list --all --status ready
        list --limit 0
        list --limit many
        next -n 0
        next --dry-run --wait 5m
        release
        done
        force-release theirs
        send-back draft
        hand mine
        wait
        prune
        log
        list --watch
        completion tcsh
        export --to csv
        import items.csv --from csv
        timeline --by color
        events --kind exploded
    """,
    "Values": """
        add ""
        add "one
two"
        add t --id a/b
        add t --id ""
        add t --id fix-login
        add t --priority urgent
        add t --priority 2000000
        add t --type "two words"
        add t --label "a b"
        add t --payload "{"
        add t --payload "[1]"
        add t --needs nowhere
        add t --needs t --id t
        add t --timeout 400d
        add t --timeout soon
        add t --retries -1
        add t --retries 2.5
        add t --retries 5000
        add t --not-before tomorrow
        add t --not-before 30
        add t --review maybe
        add t --resource ""
        add t --subject "a
b"
        add --file nosuch.jsonl
        add t --file items.jsonl
        claim fix-login --ttl 1s
        claim fix-login --ttl 3d
        claim fix-login --wait -5m
        claim fix-login --title "A title"
        claim --subject k --soft
        claim a/b
        next --type "two words"
        done mine --link nourl
        done mine --cost 5
        done mine --token 99
        done mine --token x
        heartbeat --holding mine=x
        heartbeat --ttl 5m
        agent set "a b"
        agent set coder --max-claims 0
        annotate over --check ci
        submit mine
        submit mine --draft a --draft-file b
        approve draft --revision 99
        key create --role boss
        prune --older-than 30
        prune --older-than 30d
        restore nosuch.db --yes
        copy . .
        vault sync --loop 0s
        trust --list /x
        webhook add ftp://example.org
        doctor --store nosuch.db
        list --store ftp://example.org
    """,
    "Items that are not there, or not so": """
        show nosuch
        show fix
        show fix-logim
        cancel fix-logi
        park tell
        runs --item nosuch
        claim theirs
        claim tell-users
        claim draft
        claim over
        done fix-login
        done theirs
        done over
        heartbeat fix-login
        release theirs
        leave theirs
        retry fix-login
        unpark fix-login
        reopen fix-login
        approve fix-login
        send-back fix-login --comment no
        hand mine --to ghost
        cancel over
        reject fix-login --reason no
        force-release fix-login --reason gone
        webhook remove wh-1
        key revoke abc
        session end --session ghost
    """,
    "Without a session": """
        next
        done mine
        session start
        list --mine
    """,
    "As an agent without a session": """
        next
    """,
    "Without a board": """
        list
        claim fix-login
    """,
}
#: Who types, unless a group says otherwise.
SESSION = {"DIBS_SESSION": "s1", "DIBS_AGENT": "coder"}
ENVIRONMENTS = {
    "Without a session": {"DIBS_SESSION": "", "DIBS_AGENT": ""},
    "As an agent without a session": {"DIBS_SESSION": "", "DIBS_AGENT": "coder"},
}


def lines(group: str) -> list[str]:
    """The lines of a group; one that is not indented belongs to the one before."""
    return [line.strip() for line in re.split(r"\n {8}", LINES[group]) if line.strip()]


class Answers:
    """The answers of dibs on a board of their own, with what differs from run to run replaced."""

    def __init__(self, folder: Path, run: Run) -> None:
        self._folder, self._empty, self._run = folder / "work", folder / "empty", run
        self._folder.mkdir()
        self._empty.mkdir()
        for line in ("init", *BOARD.strip().splitlines()):
            done = run(shlex.split(line), self._folder, SESSION)
            assert done.returncode == 0, (line, done.stderr)

    def text(self) -> str:
        parts = [f"{TITLE}\n"]
        for group in LINES:
            parts.append(f"\n# {group}\n")
            parts += [self._answer(group, line) for line in lines(group)]
        return "".join(parts)

    def _answer(self, group: str, line: str) -> str:
        folder = self._empty if group == "Without a board" else self._folder
        done = self._run(shlex.split(line), folder, ENVIRONMENTS.get(group, SESSION))
        said = (done.stdout + done.stderr).replace(str(self._folder), "/home/you/shop")
        said = re.sub(r"\d\d:\d\d:\d\d", "HH:MM:SS", said)
        said = re.sub(r"for \d+m( \d+s)? more", "for 30m more", said)
        return f"\n$ dibs {line}\n{said}[{done.returncode}]\n"


def _run(words: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    home = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "LOGNAME": "alice", "LANG": "C.UTF-8"}
    return subprocess.run(
        [sys.executable, "-m", "dibs.cli.main", *words],
        cwd=folder,
        env=home | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        FILE.write_text(Answers(Path(folder), _run).text(), encoding="utf-8")
