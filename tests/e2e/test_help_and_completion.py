"""Help and completions: every command is there, and every example works."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from dibs.cli.commands import COMMANDS, EXAMPLES, FAMILIES
from dibs.cli.completion import SHELLS
from dibs.cli.parser import build
from tests.e2e.conftest import Dibs

ADD_FIX_LOGIN = ("add", "Fix login", "--id", "fix-login", "--type", "bug", "--priority", "high")
CLAIM_FIX_LOGIN = ("claim", "fix-login")
NEEDS_APPROVAL = ((*ADD_FIX_LOGIN, "--needs-approval"),)
#: What has to be so before an example can work: in most cases that there is an item `fix-login`, or that it is held.
BEFORE: dict[str, tuple[tuple[str, ...], ...]] = {
    "leave": (ADD_FIX_LOGIN, ("wait", "fix-login")),
    "hand": (ADD_FIX_LOGIN, CLAIM_FIX_LOGIN, ("session", "start", "--agent", "reviewer", "--id", "reviewer-1")),
    "retry": (ADD_FIX_LOGIN, CLAIM_FIX_LOGIN, ("fail", "fix-login")),
    "reopen": (ADD_FIX_LOGIN, ("cancel", "fix-login")),
    "unpark": (ADD_FIX_LOGIN, ("park", "fix-login")),
    "annotate": (ADD_FIX_LOGIN, CLAIM_FIX_LOGIN, ("done", "fix-login")),
    "approve": NEEDS_APPROVAL,
    "send-back": NEEDS_APPROVAL,
    "reject": NEEDS_APPROVAL,
    "restore": (ADD_FIX_LOGIN, ("backup", "backup.db")),
    "import": (),
    "webhook list": (("webhook", "add", "https://127.0.0.1/", "--kind", "done"),),
    "key list": (("key", "create", "--role", "viewer"),),
}
NEED_A_CLAIM = (
    "heartbeat",
    "progress",
    "release",
    "done",
    "fail",
    "submit",
    "force-release",
    "who",
    "timeline",
    "runs",
    "sessions",
    "session end",
    "agent list",
)
BEFORE |= dict.fromkeys(NEED_A_CLAIM, (ADD_FIX_LOGIN, CLAIM_FIX_LOGIN))
SLOW = {"demo"}
#: They need a server, a key, a certificate, a clone, a repository, a terminal, and have tests of their own elsewhere.
NOT_ALONE = {"serve", "open", "top", "mcp", "key revoke", "key rotate", "key link", "vault sync"}
NOT_ALONE |= {name for name in COMMANDS if name.startswith("webhook ")} - {"webhook add", "webhook list"}
NOT_ALONE |= {"guard install", "guard remove", "guard verify", "guard hook", "worktree list", "worktree clean"}
NOT_ALONE |= {"github watch"}


def test_help_lists_every_command(bare: Dibs) -> None:
    for words in (("--help",), ("-h",), ("help",)):
        said = bare.ok(*words)
        for name, command in COMMANDS.items():
            assert f"  {name:<15}{command.summary}\n" in said
    assert bare("--version").stdout == "dibs 0.1.0\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_shows_its_options_and_examples(bare: Dibs, name: str) -> None:
    command = COMMANDS[name]
    said = bare.ok(*name.split(), "--help")
    assert said.startswith(f"usage: dibs {name}")
    for option in build(name, command)[0].options:
        assert option in said
    for example in EXAMPLES[name]:
        assert f"\n  {example}\n" in said
    assert max(map(len, said.splitlines())) <= 80
    assert bare.ok("help", *name.split()) == said


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_help_of_a_family_shows_its_commands(bare: Dibs, family: str) -> None:
    said = bare.ok(family, "--help")
    shown = [name for name in COMMANDS if f"\n  {name:<15}" in said]
    assert shown == [name for name in COMMANDS if name.startswith(family + " ")]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in SLOW | NOT_ALONE])
def test_every_example_works(dibs: Dibs, name: str) -> None:
    (dibs.folder / "items.jsonl").write_text('{"title": "From a file"}\n')
    (dibs.folder / "tasks.json").write_text('[{"id": "fix-login", "title": "Fix login", "status": "pending"}]')
    (dibs.folder / "issues.jsonl").write_text('{"id": "shop-1", "title": "Fix login", "priority": 1}')
    (dibs.folder / "issues.json").write_text("[]")
    (dibs.folder / "payload.json").write_text("{}")
    dibs.ok("export", "export.jsonl")
    for number, example in enumerate(EXAMPLES[name]):
        board = str(dibs.folder / f"board-{number}.db")
        dibs.ok("init", "--store", board)
        for words in BEFORE.get(name, (ADD_FIX_LOGIN,)):
            dibs.ok(*words, "--store", board)
        done = dibs.shell(example, DIBS_STORE=board)
        assert (done.returncode, done.stderr) == (0, ""), example


@pytest.mark.parametrize("options", [("--json",), ("--no-color",), ("--store", "."), ("--session", "x")])
def test_global_options_stand_before_and_after_the_command(dibs: Dibs, options: tuple[str, ...]) -> None:
    dibs.ok("add", "t", "--id", "x")
    store = str(dibs.folder / ".dibs" / "board.db")
    given = tuple(store if word == "." else word for word in options)
    dibs.ok("claim", "x", *given)
    before, after = dibs(*given, "claim", "x"), dibs("claim", "x", *given)
    assert before.returncode == after.returncode == 0
    assert before.stdout[:40] == after.stdout[:40]


@pytest.mark.parametrize("shell", SHELLS)
def test_completions_know_every_command_and_option(bare: Dibs, shell: str) -> None:
    text = bare.ok("completion", shell)
    for name, command in COMMANDS.items():
        for word in name.split():
            assert word in text
        for option in build(name, command)[0].options:
            assert (
                option if shell != "fish" else f"{'-l' if option.startswith('--') else '-s'} {option.lstrip('-')}"
            ) in text


@pytest.mark.parametrize("shell", SHELLS)
def test_completions_are_good_syntax(bare: Dibs, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed here")
    checked = subprocess.run([program, "-n"], input=bare.ok("completion", shell), capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["cl"], {"claim"}),
        (["--json", "for"], {"force-release"}),
        (["--store", "claim", "hear"], {"heartbeat"}),
        (["session", ""], {"start", "end"}),
        (["session", "start", "--ow"], {"--owner-pid"}),
        (["claim", "--tt"], {"--ttl"}),
        (["agent", "set", "--max"], {"--max-claims", "--max-claims-total"}),
        (["send"], {"send-back"}),
        (["claim", "fix-login", "--wa"], {"--wait"}),
        (["completion", "z"], {"zsh"}),
    ],
)
def test_bash_completes(bare: Dibs, typed: list[str], offered: set[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed here")
    words = " ".join(f"'{word}'" for word in ["dibs", *typed])
    asked = f"COMP_WORDS=({words}); COMP_CWORD={len(typed)}"
    script = f'eval "$(dibs completion bash)"; {asked}; _dibs; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run([bash, "-c", script], env=bare.environment, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == offered


def test_fish_completes(bare: Dibs) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed here")
    for typed, offered in (("dibs cl", "claim"), ("dibs session st", "start"), ("dibs claim --tt", "--ttl")):
        script = f'dibs completion fish | source; complete --do-complete "{typed}"'
        done = subprocess.run([fish, "-c", script], env=bare.environment, capture_output=True, text=True, check=True)
        assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [offered]
