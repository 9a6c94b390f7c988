"""The table of commands: what each is for, which module holds it, and examples that work.

A command `force-release` lives in its module as two functions: `force_release_options(parser)` declares what it
takes, `force_release(cli)` does it. Help, dispatch and shell completions all read this table; nothing is imported
until a command is chosen.
"""

from __future__ import annotations

from dibs.value import Value

GROUPS = {
    "work": "Work on items",
    "board": "Fill and tend the board",
    "approval": "Decide what may be done",
    "history": "See what is going on, and what was",
    "admin": "Set up and look after it",
}


class Command(Value):
    """One line of the table; `examples` are lines a reader can type as they stand."""

    group: str
    module: str
    summary: str
    examples: tuple[str, ...]


def _of(group: str, module: str, summary: str, *examples: str) -> Command:
    return Command(group=group, module=module, summary=summary, examples=examples)


COMMANDS = {
    "next": _of("work", "work", "claim the best item there is", "dibs next", "dibs next --type bug --wait 10m"),
    "claim": _of(
        "work",
        "work",
        "claim an item by its id, now or when it is your turn",
        "dibs claim fix-login --ttl 45m",
        "dibs claim fix-login --wait 10m",
    ),
    "wait": _of("work", "waiting", "queue for an item, and say where you stand", "dibs wait fix-login --ttl 10m"),
    "leave": _of("work", "waiting", "leave an item's queue", "dibs leave fix-login"),
    "heartbeat": _of("work", "heartbeat", "renew claims", "dibs heartbeat", "dibs heartbeat fix-login"),
    "progress": _of("work", "work", "leave a note, and renew", 'dibs progress fix-login "the cause is in auth.py"'),
    "release": _of("work", "work", "give an item back", 'dibs release fix-login --reason "needs a designer"'),
    "done": _of("work", "work", "finish an item", "dibs done fix-login --link pr=https://example.org/pull/7"),
    "fail": _of("work", "work", "end an item as failed", 'dibs fail fix-login --reason "cannot be reproduced"'),
    "submit": _of(
        "work",
        "approval",
        "end a run with a draft for approval",
        'dibs submit fix-login --draft "Dear customer, ..."',
    ),
    "annotate": _of(
        "work",
        "annotating",
        "add links, checks and costs to a run that has ended",
        "dibs annotate fix-login --link pr=https://example.org/pull/7",
        "dibs annotate fix-login --check ci=passed:https://example.org/runs/9",
    ),
    "work": _of(
        "work",
        "working",
        "run a command for every item there is, and for what comes",
        "dibs work --agent coder --once -- echo {id} {title}",
        "dibs work --agent coder --type bug --max 4 --once -- sh -c 'cat >/dev/null'",
    ),
    "exec": _of(
        "work",
        "working",
        "claim an item, run a command for it, and end it",
        "dibs exec fix-login --agent coder -- echo {title}",
    ),
    "add": _of(
        "board",
        "items",
        "add an item, or a file of them",
        'dibs add "Fix login" --id fix-login --type bug --priority high',
        'dibs add "Tell users" --needs fix-login --not-before 2h --needs-approval',
        "dibs add --file items.jsonl",
    ),
    "list": _of("board", "items", "list items", "dibs list", "dibs list --status ready --type bug"),
    "show": _of("board", "showing", "show an item in full", "dibs show fix-login"),
    "edit": _of("board", "editing", "change an item's content", "dibs edit fix-login --priority critical"),
    "park": _of("board", "editing", "set an item aside: next skips it", "dibs park fix-login --reason later"),
    "unpark": _of("board", "editing", "take up a parked item again", "dibs unpark fix-login"),
    "cancel": _of("board", "editing", "say that an item is not to be done", "dibs cancel fix-login --reason duplicate"),
    "retry": _of("board", "editing", "try a failed item again", "dibs retry fix-login"),
    "force-release": _of(
        "board",
        "editing",
        "take an item away from its holder",
        'dibs force-release fix-login --reason "its machine is gone"',
    ),
    "approve": _of(
        "approval",
        "approval",
        "say yes: it may be done, or its draft is enough",
        "dibs approve fix-login --revision 1",
        'dibs approve fix-login --done --comment "sent as it is"',
    ),
    "send-back": _of(
        "approval",
        "approval",
        "ask for another draft",
        'dibs send-back fix-login --comment "shorter, please"',
    ),
    "reject": _of(
        "approval",
        "approval",
        "say that an item is never to be done",
        'dibs reject fix-login --reason "we do not do that"',
    ),
    "who": _of("history", "who", "show who is on what", "dibs who", "dibs who --resources"),
    "why": _of("history", "showing", "say why an item can or cannot be claimed", "dibs why fix-login"),
    "log": _of("history", "history", "show the history of an item", "dibs log fix-login"),
    "events": _of(
        "history",
        "history",
        "show the feed of the board",
        "dibs events --after 0",
        "dibs events --kind claimable --kind failed",
    ),
    "runs": _of("history", "history", "list runs: who held what, and how it ended", "dibs runs --item fix-login"),
    "stats": _of("history", "figures", "show the board in figures", "dibs stats"),
    "init": _of("admin", "upkeep", "make a board for this repository or folder", "dibs init"),
    "vault init": _of("admin", "vault", "make a board of markdown files in folders", "dibs vault init tasks"),
    "vault sync": _of(
        "admin",
        "vault",
        "bring a vault and its git remote together, once or again and again",
        "dibs vault sync",
        "dibs vault sync --loop 30s",
    ),
    "vault hub": _of("admin", "vault", "make a bare git repository that clones push to", "dibs vault hub init hub.git"),
    "migrate": _of("admin", "upkeep", "bring the board's schema up to date", "dibs migrate"),
    "agent set": _of(
        "admin",
        "people",
        "create or change an agent",
        "dibs agent set coder --type bug --max-claims 2",
        "dibs agent set mailer --allow read --sensitive send --claims-per-minute 6",
    ),
    "agent list": _of("admin", "people", "list agents", "dibs agent list"),
    "session start": _of(
        "admin",
        "people",
        "start a session and print its id",
        "export DIBS_SESSION=$(dibs session start --agent coder)",
    ),
    "session end": _of("admin", "people", "end a session, releasing what it holds", "dibs session end"),
    "sessions": _of("admin", "people", "list sessions", "dibs sessions"),
    "serve": _of(
        "admin",
        "serving",
        "put the board behind HTTP, for other machines and browsers",
        "dibs serve",
        "dibs serve --port 9000 --name https://board.example.org --log-json",
    ),
    "key create": _of(
        "admin",
        "keys",
        "make a key for a caller of the server, told once",
        "dibs key create --role agent --agent coder --expires 30d",
    ),
    "key list": _of("admin", "keys", "list keys, without their secrets", "dibs key list"),
    "key revoke": _of("admin", "keys", "take a key back", "dibs key revoke 5f0c2a91d3"),
    "key link": _of(
        "admin",
        "keys",
        "print a link that signs a browser in, once",
        "dibs key link --url http://127.0.0.1:8377",
    ),
    "trust": _of(
        "admin",
        "trusting",
        "believe a board or a dibs.toml that another user owns, or a commit brought",
        "dibs trust .dibs",
        "dibs trust --list",
    ),
    "config": _of("admin", "settings", "show every setting in force, and where it is from", "dibs config"),
    "sweep": _of("admin", "upkeep", "move on what expired, died or fell due", "dibs sweep"),
    "doctor": _of("admin", "upkeep", "check that the board is sound", "dibs doctor"),
    "prune": _of("admin", "archive", "forget what ended long ago", "dibs prune --older-than 30d --yes"),
    "backup": _of("admin", "archive", "copy the board while it is in use", "dibs backup monday.db"),
    "restore": _of("admin", "archive", "bring a backup back", "dibs restore backup.db --yes"),
    "export": _of("admin", "archive", "write everything as JSON lines", "dibs export", "dibs export board.jsonl"),
    "import": _of(
        "admin",
        "archive",
        "fill an empty board from an export; or add the tasks of a file",
        "dibs import export.jsonl",
        "dibs import --from tasks tasks.json --dry-run",
    ),
    "mirror": _of("admin", "tasks", "keep a file of tasks as the board is", "dibs mirror tasks.json --once"),
    "copy": _of("admin", "copying", "copy a board to another place, checked", "dibs copy . copy.db"),
    "demo": _of("admin", "demo", "watch a fleet share a temporary board", "dibs demo"),
    "completion": _of("admin", "completion", "print completions for a shell", "dibs completion bash"),
}

#: First words that need a second one.
FAMILIES = frozenset(name.split()[0] for name in COMMANDS if " " in name)

#: Options that may stand before the command, and whether a value follows them.
GLOBAL_OPTIONS = {"--store": True, "--session": True, "--agent": True, "--json": False, "--no-color": False}


def split(argv: list[str]) -> tuple[str | None, list[str]]:
    """The command's name and everything else, global options that stood before it included; None without one."""
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        name, equals, _ = argv[at].partition("=")
        if name not in GLOBAL_OPTIONS:
            break
        at += 2 if GLOBAL_OPTIONS[name] and not equals else 1
    words = 2 if at < len(argv) and argv[at] in FAMILIES else 1
    chosen = argv[at : at + words]
    if not chosen or chosen[0].startswith("-"):
        return None, argv
    if chosen[-1].startswith("-"):
        chosen = chosen[:-1]
    return " ".join(chosen), argv[:at] + argv[at + len(chosen) :]
