"""A hundred bad inputs and what dibs answers, in one file that a person can read in one sitting: bad_lines.txt.

    python -m tests.e2e.bad_lines

writes the file again. Read the difference before you commit it: each answer has to say what is wrong and what to type.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

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
        add t --timeout 5
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
        progress mine ""
        heartbeat --holding mine=x
        heartbeat --ttl 5m
        agent set "a b"
        agent set coder --max-claims 0
        session start
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
        claim parked
        claim fix-login --session nobody
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
        hand mine --to nobody
        hand mine --to s1
        cancel over
        reject fix-login --reason no
        edit over --title x
        force-release fix-login --reason gone
        webhook remove wh-1
        key revoke abc
        session end --session nobody
    """,
    "Without a session": """
        next
        done mine
    """,
    "As an agent without a session": """
        next
    """,
    "Without a board": """
        list
        claim fix-login
    """,
}
#: Instead of session s1 of coder, for a group.
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "Without a session": {"DIBS_SESSION": "", "DIBS_AGENT": ""},
    "As an agent without a session": {"DIBS_SESSION": "", "DIBS_AGENT": "coder"},
}


def lines(group: str) -> list[str]:
    """The lines of a group; one that is not indented belongs to the one before."""
    return [line.strip() for line in re.split(r"\n {8}", LINES[group]) if line.strip()]


class Answers:
    """The answers of dibs on a board of their own, with what differs from run to run replaced."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder, self._environment = folder, environment
        self._empty = folder / "empty"
        self._empty.mkdir()
        self._run(["init"])
        for line in BOARD.strip().splitlines():
            done = self._run(shlex.split(line))
            assert done.returncode == 0, (line, done.stderr)

    def text(self) -> str:
        parts = [__doc__.partition("\n")[0] + "\n"]
        for group in LINES:
            parts.append(f"\n# {group}\n")
            parts += [self._answer(group, line) for line in lines(group)]
        return "".join(parts)

    def _answer(self, group: str, line: str) -> str:
        folder = self._empty if group == "Without a board" else self._folder
        done = self._run(shlex.split(line), folder, ENVIRONMENTS.get(group, {}))
        assert done.returncode not in (0, 141) and "Traceback" not in done.stderr, (line, done)
        assert done.stdout == "", line
        said = re.sub(r"\d\d:\d\d:\d\d", "HH:MM:SS", done.stderr.replace(str(self._folder), "/work"))
        said = re.sub(r"\d+m( \d+s)? left", "29m left", said)
        return f"\n$ dibs {line}\n{said}[{done.returncode}]\n"

    def _run(
        self, words: list[str], folder: Path | None = None, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dibs.cli.main", *words],
            cwd=folder or self._folder,
            env=self._environment | (environment or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            start_new_session=True,
            check=False,
        )


def main() -> None:
    import os

    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "LOGNAME": "alice", "LANG": "C.UTF-8"}
        environment |= {"DIBS_SESSION": "s1", "DIBS_AGENT": "coder"}
        FILE.write_text(Answers(Path(folder), environment).text(), encoding="utf-8")


if __name__ == "__main__":
    main()
