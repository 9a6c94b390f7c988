"""Whatever stands in a file that people or clones can write, a command ends by itself, with at most one line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Dibs

DEEP = 100_000
#: By name, what is written into the file; or what is put in its place.
CONTENTS: dict[str, bytes | Callable[[Path], None]] = {
    "nested JSON": b"[" * DEEP,
    "nested objects": b'{"a":' * DEEP,
    "nested TOML": b"x=" + b"[" * 500,
    "a long key": b"a." * DEEP + b"a = 1",
    "a long quoted key": b'"a".' * (DEEP // 4) + b"a = 1",
    "nested YAML": b"---\na: " + b"[" * DEEP + b"\n---\n",
    "NUL": b"a\0b = 1\n{\0}",
    "no UTF-8": b"\xff\xfe[\x80",
    "half a character": b'{"title": "\\ud800", "id": "\\ud800"}',
    "a large file": b'{"a": "' + b"x" * 3_000_000 + b'"}',
    "a large number": b'{"a": ' + b"9" * 10_000 + b"}",
    "a large number in TOML": b"a = " + b"9" * 10_000,
    "another value": b'"x"',
    "nothing": b"",
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "no end": lambda path: path.symlink_to("/dev/zero"),
}
#: By the file: what reads it, in the folder of a board with an item that is claimed.
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "dibs.toml": (("list",), ("config",), ("config", "--check"), ("init",), ("github", "watch", "o")),
    "config/dibs/trusted": (("trust", "--list"), ("trust", ".")),
    "input": (
        ("add", "--file", "input"),
        ("import", "input"),
        ("import", "--from", "tasks", "input"),
        ("import", "--from", "beads", "input"),
        ("import", "--from", "github", "input"),
        ("github", "test", "input", "--event", "issues"),
        ("submit", "x", "--draft-file", "input"),
        ("restore", "input"),
    ),
    "home/.codex/config.toml": (("setup", "codex", "--yes"),),
    "home/.claude/settings.json": (("setup", "claude", "--yes"),),
    "home/.local/state/dibs/keys.json": (("list", "--store", "http://127.0.0.1:9"),),
    "vault/Needs_Action/a.md": (("list", "--store", "vault:vault"), ("doctor", "--store", "vault:vault")),
}
#: Whoever names a pipe or a device wants it read: what a shell makes of `<(...)` is one.
NAMED = ("input",)


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("file", COMMANDS)
def test_no_content_of_a_file_ends_a_command_in_a_traceback(dibs: Dibs, file: str, content: str) -> None:
    made = CONTENTS[content]
    if file in NAMED and content in ("a pipe", "no end"):
        pytest.skip("the user names the file, which may be a pipe")
    home = {"HOME": str(dibs.folder / "home"), "XDG_CONFIG_HOME": str(dibs.folder / "config")}
    dibs.ok("add", "x", "--id", "x")
    dibs.ok("claim", "x")
    path = dibs.folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made) if isinstance(made, bytes) else made(path)
    for words in COMMANDS[file]:
        # A traceback fails in `Dibs`, and so does a command that does not end.
        done = dibs(*words, environment=home)
        assert done.returncode in (0, 1, 2, 4, 5, 6, 75), words
        refusals = [line for line in done.stderr.splitlines() if not line.startswith("usage: ")]
        assert done.returncode == 0 or len(refusals) <= 2, (words, done.stderr)


@pytest.mark.parametrize("file", ["dibs.toml", "input"])
def test_a_file_that_may_not_be_read_is_refused_in_one_line(dibs: Dibs, file: str) -> None:
    """Root may read every file but this one."""
    (dibs.folder / file).symlink_to("/proc/self/mem")
    for words in COMMANDS[file]:
        done = dibs(*words)
        assert done.stderr.count("\n") <= 2, (words, done.stderr)


def test_a_dibs_toml_above_256_kb_is_refused_and_one_below_counts(dibs: Dibs) -> None:
    path = dibs.folder / "dibs.toml"
    path.write_text("#" * 255_000 + "\n[board]\nmax_strikes = 3\n")
    assert dibs.json("config", "--check")["mistakes"] == []
    path.write_text("#" * 256_001)
    error = dibs.refused("list")[1]
    assert error["field"] == "dibs.toml"
    assert "larger than 256 kB" in error["message"]


def test_a_number_of_too_many_digits_is_refused_in_the_words_of_a_user(dibs: Dibs) -> None:
    (dibs.folder / "dibs.toml").write_text("[board]\nmax_strikes = " + "9" * 10_000)
    message = dibs.refused("list")[1]["message"]
    assert message == f"{dibs.folder}/dibs.toml: a number has too many digits"
