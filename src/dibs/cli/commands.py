"""The table of commands: the group, module and summary of each, and examples.

A command `force-release` is two functions of its module: `force_release_options(parser)` declares its arguments, if it
has any, and `force_release(cli)` runs it. Help, dispatch and shell completions read this table.
"""

from __future__ import annotations

from dibs.value import Value

GROUPS = {
    "work": "Work on items",
    "board": "Add and change items",
    "approval": "Approve and reject",
    "history": "Inspect the board",
    "admin": "Set up and administer",
}


class Command(Value):
    group: str
    module: str
    summary: str


def _command(group: str, module: str, summary: str) -> Command:
    return Command(group=group, module=module, summary=summary)


COMMANDS = {
    "next": _command("work", "claim_commands", "claim the best ready item"),
    "claim": _command("work", "claim_commands", "claim an item by its id or subject, or queue for it"),
    "hand": _command("work", "claim_commands", "hand a claim over to another session"),
    "wait": _command("work", "wait", "join an item's queue and print your position"),
    "leave": _command("work", "wait", "leave an item's queue"),
    "heartbeat": _command("work", "claim_commands", "renew claims"),
    "progress": _command("work", "claim_commands", "record a progress note and renew the claim"),
    "release": _command("work", "claim_commands", "release a claim"),
    "done": _command("work", "claim_commands", "mark an item done"),
    "fail": _command("work", "claim_commands", "mark an item failed"),
    "submit": _command("work", "review", "submit a draft for approval"),
    "annotate": _command("work", "review", "add links, checks or costs to a run"),
    "work": _command("work", "worker_command", "claim items one after another and run a command for each"),
    "exec": _command("work", "worker_command", "claim one item and run a command for it"),
    "worktree list": _command("work", "worktree", "list the git worktrees that dibs made"),
    "worktree clean": _command("work", "worktree", "remove worktrees that nobody uses and that have no changes"),
    "add": _command("board", "items", "add an item, or a file of items"),
    "list": _command("board", "listing", "list items"),
    "show": _command("board", "show", "show one item in full"),
    "edit": _command("board", "edit", "change an item's fields"),
    "park": _command("board", "edit", "park an item, so that next skips it"),
    "unpark": _command("board", "edit", "make a parked item claimable again"),
    "cancel": _command("board", "edit", "cancel an item"),
    "retry": _command("board", "edit", "make a failed item claimable again"),
    "reopen": _command("board", "edit", "return a done, cancelled or rejected item to the board"),
    "force-release": _command("board", "edit", "end the claim of another session"),
    "approve": _command("approval", "review", "approve an item or its draft"),
    "send-back": _command("approval", "review", "ask for another draft"),
    "reject": _command("approval", "review", "reject an item for good"),
    "who": _command("history", "who", "show live claims by agent"),
    "why": _command("history", "show", "explain why an item can or cannot be claimed"),
    "log": _command("history", "history", "show the history of one item"),
    "events": _command("history", "history", "show the event feed of the board"),
    "runs": _command("history", "history", "list runs: who held which item, and the outcome"),
    "timeline": _command("history", "timeline", "show who held what, as bars"),
    "stats": _command("history", "history", "show counts and rates, or how they changed"),
    "top": _command("history", "top", "watch the board live in the terminal, and act on it"),
    "init": _command("admin", "admin", "create a board for this repository or folder"),
    "setup": _command("admin", "setup", "connect a coding agent to dibs, or AGENTS.md (agents-md)"),
    "vault init": _command("admin", "vault", "create a board of markdown files in folders"),
    "vault sync": _command("admin", "vault", "sync a vault with its git remote, once or in a loop"),
    "vault hub": _command("admin", "vault", "create a bare git repository for clones to push to"),
    "migrate": _command("admin", "admin", "upgrade the board's schema"),
    "agent set": _command("admin", "agents", "create or change an agent"),
    "agent list": _command("admin", "agents", "list agents"),
    "session start": _command("admin", "agents", "start a session and print its id"),
    "session end": _command("admin", "agents", "end a session and release its claims"),
    "sessions": _command("admin", "agents", "list sessions"),
    "serve": _command("admin", "server", "serve the board over HTTP to other machines and browsers"),
    "open": _command("admin", "dashboard", "open the board's dashboard in a browser"),
    "mcp": _command("admin", "mcp", "serve the board's tools to a model's client, on stdio"),
    "prime": _command("admin", "mcp", "print what a model must know to work with the board"),
    "key create": _command("admin", "server", "create an API key and show it once"),
    "key list": _command("admin", "server", "list API keys without their secrets"),
    "key revoke": _command("admin", "server", "revoke an API key"),
    "key link": _command("admin", "server", "print a link that signs a browser in once"),
    "webhook add": _command("admin", "webhooks", "send events to a URL, and show the secret once"),
    "webhook list": _command("admin", "webhooks", "list webhooks, and which of them fail"),
    "webhook remove": _command("admin", "webhooks", "remove a webhook"),
    "webhook rotate": _command("admin", "webhooks", "give a webhook a new secret and show it once"),
    "webhook resume": _command("admin", "webhooks", "send again, after a pause or to a disabled webhook"),
    "webhook pause": _command("admin", "webhooks", "stop sending to a webhook"),
    "webhook test": _command("admin", "webhooks", "send a test message now"),
    "webhook dead": _command("admin", "webhooks", "list messages that could not be delivered"),
    "webhook retry": _command("admin", "webhooks", "send these messages again"),
    "deliver": _command("admin", "webhooks", "deliver webhooks, if no server does"),
    "tasks link": _command("admin", "claude_tasks", "put ready items into a task list of Claude Code"),
    "hook": _command("admin", "hook", "answer a hook of a coding agent"),
    "guard install": _command("admin", "guard", "add git hooks that refuse pushes of lost claims"),
    "guard remove": _command("admin", "guard", "remove these hooks, and restore what was there"),
    "guard verify": _command("admin", "guard", "check the claims that commits name, for CI"),
    "guard hook": _command("admin", "guard", "answer a hook of git"),
    "github watch": _command("admin", "github", "turn issues, pull requests and failed builds into items"),
    "github test": _command("admin", "github", "show what a payload of GitHub would do"),
    "trust": _command("admin", "admin", "trust a board or dibs.toml of another user or a commit"),
    "config": _command("admin", "admin", "show every setting and its source"),
    "sweep": _command("admin", "admin", "end expired claims and apply what is due"),
    "doctor": _command("admin", "admin", "check the board for inconsistencies"),
    "prune": _command("admin", "archive", "delete items that ended long ago"),
    "backup": _command("admin", "archive", "back up the board while it is in use"),
    "restore": _command("admin", "archive", "replace the board with a backup"),
    "export": _command("admin", "archive", "write the whole board as JSON lines"),
    "import": _command("admin", "archive", "load an export into an empty board, or add tasks"),
    "mirror": _command("admin", "tasks", "keep a tasks file up to date with the board"),
    "copy": _command("admin", "archive", "copy a board to another store and verify the copy"),
    "remove-board": _command("admin", "removal", "remove the board and the files that dibs made for it"),
    "demo": _command("admin", "demo", "watch a fleet work on a temporary board"),
    "completion": _command("admin", "completion", "print completions for a shell"),
}

#: Lines that help shows for each command; each can be typed as it is.
EXAMPLES = {
    "next": ("dibs next", "dibs next --type bug --wait 10m"),
    "claim": (
        "dibs claim fix-login --ttl 45m",
        "dibs claim fix-login --wait 10m",
        'dibs claim --subject github:acme/shop#12 --title "Fix login" --type bug',
    ),
    "hand": ('dibs hand fix-login --to reviewer-1 --reason "the tests are written"',),
    "wait": ("dibs wait fix-login --ttl 10m",),
    "leave": ("dibs leave fix-login",),
    "heartbeat": ("dibs heartbeat", "dibs heartbeat fix-login"),
    "progress": ('dibs progress fix-login "the cause is in auth.py"',),
    "release": ('dibs release fix-login --reason "needs a designer"',),
    "done": ("dibs done fix-login --link pr=https://example.org/pull/7",),
    "fail": ('dibs fail fix-login --reason "cannot be reproduced"',),
    "submit": ('dibs submit fix-login --draft "Dear customer, ..."',),
    "annotate": (
        "dibs annotate fix-login --link pr=https://example.org/pull/7",
        "dibs annotate fix-login --check ci=passed:https://example.org/runs/9",
    ),
    "work": (
        "dibs work --agent coder --once -- echo {id} {title}",
        "dibs work --agent coder --type bug --max 4 --once -- sh -c 'cat >/dev/null'",
    ),
    "exec": ("dibs exec fix-login --agent coder -- echo {title}",),
    "worktree list": ("dibs worktree list",),
    "worktree clean": ("dibs worktree clean", "dibs worktree clean fix-login"),
    "add": (
        'dibs add "Fix login" --id fix-login --type bug --priority high',
        'dibs add "Tell users" --needs fix-login --not-before 2h --needs-approval',
        "dibs add --file items.jsonl",
    ),
    "list": ("dibs list", "dibs list --status ready --type bug"),
    "show": ("dibs show fix-login",),
    "edit": ("dibs edit fix-login --priority critical",),
    "park": ("dibs park fix-login --reason later",),
    "unpark": ("dibs unpark fix-login",),
    "cancel": ("dibs cancel fix-login --reason duplicate",),
    "retry": ("dibs retry fix-login",),
    "reopen": ('dibs reopen fix-login --reason "it fails on Windows"',),
    "force-release": ('dibs force-release fix-login --reason "its machine is gone"',),
    "approve": ("dibs approve fix-login --revision 1", 'dibs approve fix-login --done --comment "sent as it is"'),
    "send-back": ('dibs send-back fix-login --comment "shorter, please"',),
    "reject": ('dibs reject fix-login --reason "we do not do that"',),
    "who": ("dibs who", "dibs who --resources"),
    "why": ("dibs why fix-login",),
    "log": ("dibs log fix-login",),
    "events": ("dibs events --after 0", "dibs events --kind claimable --kind failed"),
    "runs": ("dibs runs --item fix-login",),
    "timeline": ("dibs timeline", "dibs timeline --since 30m --by item"),
    "stats": ("dibs stats", "dibs stats --since 24h"),
    "top": ("dibs top",),
    "init": ("dibs init",),
    "setup": ("dibs setup claude --yes", "dibs setup codex --project --yes", "dibs setup agents-md --remove"),
    "vault init": ("dibs vault init tasks",),
    "vault sync": ("dibs vault sync", "dibs vault sync --loop 30s"),
    "vault hub": ("dibs vault hub init hub.git",),
    "migrate": ("dibs migrate",),
    "agent set": (
        "dibs agent set coder --type bug --max-claims 2",
        "dibs agent set mailer --allow read --sensitive send --claims-per-minute 6",
    ),
    "agent list": ("dibs agent list",),
    "session start": ("export DIBS_SESSION=$(dibs session start --agent coder)",),
    "session end": ("dibs session end",),
    "sessions": ("dibs sessions",),
    "serve": ("dibs serve", "dibs serve --port 9000 --name https://board.example.org --log-json"),
    "open": ("dibs open", "dibs open --print", "dibs open --stop"),
    "mcp": ("dibs mcp",),
    "prime": ("dibs prime",),
    "key create": ("dibs key create --role agent --agent coder --expires 30d",),
    "key list": ("dibs key list",),
    "key revoke": ("dibs key revoke 5f0c2a91d3",),
    "key link": ("dibs key link --url http://127.0.0.1:8377",),
    "webhook add": (
        "dibs webhook add https://example.org/hook --kind claimable,expired",
        "dibs webhook add https://chat.example.org/x --kind failed --format slack",
    ),
    "webhook list": ("dibs webhook list",),
    "webhook remove": ("dibs webhook remove wh-5f0c2a91d3",),
    "webhook rotate": ("dibs webhook rotate wh-5f0c2a91d3",),
    "webhook resume": ("dibs webhook resume wh-5f0c2a91d3",),
    "webhook pause": ("dibs webhook pause wh-5f0c2a91d3",),
    "webhook test": ("dibs webhook test wh-5f0c2a91d3",),
    "webhook dead": ("dibs webhook dead wh-5f0c2a91d3",),
    "webhook retry": ("dibs webhook retry wh-5f0c2a91d3",),
    "deliver": ("dibs deliver --once",),
    "tasks link": ("dibs tasks link shop",),
    "hook": ("dibs hook SessionStart </dev/null",),
    "guard install": ("dibs guard install", "dibs guard install --pre-commit"),
    "guard remove": ("dibs guard remove",),
    "guard verify": ("dibs guard verify --range main..HEAD",),
    "guard hook": ("dibs guard hook pre-push -- origin </dev/null",),
    "github watch": ("dibs github watch acme/shop", "dibs github watch acme/shop --once"),
    "github test": ("dibs github test payload.json --event issues",),
    "trust": ("dibs trust .dibs", "dibs trust --list"),
    "config": ("dibs config",),
    "sweep": ("dibs sweep",),
    "doctor": ("dibs doctor",),
    "prune": ("dibs prune --older-than 30d --yes",),
    "backup": ("dibs backup monday.db",),
    "restore": ("dibs restore backup.db --yes",),
    "export": ("dibs export", "dibs export board.jsonl"),
    "import": (
        "dibs import export.jsonl",
        "dibs import --from tasks tasks.json --dry-run",
        "dibs import --from beads issues.jsonl",
        "dibs import --from github issues.json --dry-run",
    ),
    "mirror": ("dibs mirror tasks.json --once",),
    "copy": ("dibs copy . copy.db",),
    "remove-board": ("dibs remove-board --yes",),
    "demo": ("dibs demo", "dibs demo --open --agents 50 --for 10m", "dibs demo --record demo.svg"),
    "completion": ("dibs completion bash",),
}

#: First words that need a second one.
FAMILIES = frozenset(name.split()[0] for name in COMMANDS if " " in name)

#: Options that may precede the command, and whether each takes a value.
GLOBAL_OPTIONS = {
    "--store": True,
    "--session": True,
    "--agent": True,
    "--json": False,
    "--brief": False,
    "--no-color": False,
}


def split_command(argv: list[str]) -> tuple[str | None, list[str]]:
    """Return the command's name, or None, and all other arguments, including global options that precede the name."""
    at = _first_word(argv)
    words = 2 if at < len(argv) and argv[at] in FAMILIES else 1
    chosen = argv[at : at + words]
    if not chosen or chosen[0].startswith("-"):
        return None, argv
    if chosen[-1].startswith("-"):
        chosen = chosen[:-1]
    return " ".join(chosen), argv[:at] + argv[at + len(chosen) :]


def has_only_options(argv: list[str]) -> bool:
    """Whether nothing but global options is there."""
    return _first_word(argv) >= len(argv)


def _first_word(argv: list[str]) -> int:
    """Where the global options before the command end."""
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        name, equals, _ = argv[at].partition("=")
        if name not in GLOBAL_OPTIONS:
            break
        at += 2 if GLOBAL_OPTIONS[name] and not equals else 1
    return at
