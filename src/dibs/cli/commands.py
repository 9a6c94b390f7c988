"""The table of commands: the group, module and summary of each, and examples.

A command `force-release` is two functions of its module: `force_release_options(parser)` declares its arguments, if it
has any, and `force_release(cli)` runs it. Help, dispatch and shell completions read this table.
"""

from __future__ import annotations

GROUPS = {
    "work": "Work on items",
    "board": "Add and change items",
    "approval": "Approve and reject",
    "history": "Inspect the board",
    "admin": "Set up and administer",
}


class Command:
    def __init__(self, group: str, module: str, summary: str) -> None:
        self.group, self.module, self.summary = group, module, summary


COMMANDS = {
    "next": Command("work", "claim_commands", "claim the best ready item"),
    "claim": Command("work", "claim_commands", "claim an item by its id or subject, or queue for it"),
    "hand": Command("work", "claim_commands", "hand a claim over to another session"),
    "wait": Command("work", "wait", "join an item's queue and print your position"),
    "leave": Command("work", "wait", "leave an item's queue"),
    "heartbeat": Command("work", "claim_commands", "renew claims"),
    "progress": Command("work", "claim_commands", "record a progress note and renew the claim"),
    "release": Command("work", "claim_commands", "release a claim"),
    "done": Command("work", "claim_commands", "mark an item done"),
    "fail": Command("work", "claim_commands", "mark an item failed"),
    "submit": Command("work", "review", "submit a draft for approval"),
    "annotate": Command("work", "review", "add links, checks or costs to a run"),
    "work": Command("work", "worker_command", "claim items one after another and run a command for each"),
    "exec": Command("work", "worker_command", "claim one item and run a command for it"),
    "worktree list": Command("work", "worktree", "list the git worktrees that dibs made"),
    "worktree clean": Command("work", "worktree", "remove worktrees that nobody uses and that have no changes"),
    "add": Command("board", "items", "add an item, or a file of items"),
    "list": Command("board", "listing", "list items"),
    "show": Command("board", "show", "show one item in full"),
    "edit": Command("board", "edit", "change an item's fields"),
    "park": Command("board", "edit", "park an item, so that next skips it"),
    "unpark": Command("board", "edit", "make a parked item claimable again"),
    "cancel": Command("board", "edit", "cancel an item"),
    "retry": Command("board", "edit", "make a failed item claimable again"),
    "reopen": Command("board", "edit", "return a done, cancelled or rejected item to the board"),
    "force-release": Command("board", "edit", "end the claim of another session"),
    "approve": Command("approval", "review", "approve an item or its draft"),
    "send-back": Command("approval", "review", "ask for another draft"),
    "reject": Command("approval", "review", "reject an item for good"),
    "who": Command("history", "who", "show live claims by agent"),
    "why": Command("history", "show", "explain why an item can or cannot be claimed"),
    "log": Command("history", "history", "show the history of one item"),
    "events": Command("history", "history", "show the event feed of the board"),
    "runs": Command("history", "history", "list runs: who held which item, and the outcome"),
    "timeline": Command("history", "timeline", "show who held what, as bars"),
    "stats": Command("history", "history", "show counts and rates, or how they changed"),
    "top": Command("history", "top", "watch the board live in the terminal, and act on it"),
    "init": Command("admin", "admin", "create a board for this repository or folder"),
    "setup": Command("admin", "setup", "connect a coding agent to dibs, or AGENTS.md (agents-md)"),
    "vault init": Command("admin", "vault", "create a board of markdown files in folders"),
    "vault sync": Command("admin", "vault", "sync a vault with its git remote, once or in a loop"),
    "vault hub": Command("admin", "vault", "create a bare git repository for clones to push to"),
    "migrate": Command("admin", "admin", "upgrade the board's schema"),
    "agent set": Command("admin", "agents", "create or change an agent"),
    "agent list": Command("admin", "agents", "list agents"),
    "session start": Command("admin", "agents", "start a session and print its id"),
    "session end": Command("admin", "agents", "end a session and release its claims"),
    "sessions": Command("admin", "agents", "list sessions"),
    "serve": Command("admin", "server", "serve the board over HTTP to other machines and browsers"),
    "open": Command("admin", "dashboard", "open the board's dashboard in a browser"),
    "mcp": Command("admin", "mcp", "serve the board's tools to a model's client, on stdio"),
    "prime": Command("admin", "mcp", "print what a model must know to work with the board"),
    "key create": Command("admin", "server", "create an API key and show it once"),
    "key list": Command("admin", "server", "list API keys without their secrets"),
    "key rotate": Command("admin", "server", "replace an API key by another that acts for its sessions"),
    "key revoke": Command("admin", "server", "revoke an API key"),
    "key link": Command("admin", "server", "print a link that signs a browser in once"),
    "webhook add": Command("admin", "webhooks", "send events to a URL, and show the secret once"),
    "webhook list": Command("admin", "webhooks", "list webhooks, and which of them fail"),
    "webhook remove": Command("admin", "webhooks", "remove a webhook"),
    "webhook rotate": Command("admin", "webhooks", "give a webhook a new secret and show it once"),
    "webhook resume": Command("admin", "webhooks", "send again, after a pause or to a disabled webhook"),
    "webhook pause": Command("admin", "webhooks", "stop sending to a webhook"),
    "webhook test": Command("admin", "webhooks", "send a test message now"),
    "webhook dead": Command("admin", "webhooks", "list messages that could not be delivered"),
    "webhook retry": Command("admin", "webhooks", "send these messages again"),
    "deliver": Command("admin", "webhooks", "deliver webhooks, if no server does"),
    "tasks link": Command("admin", "claude_tasks", "put ready items into a task list of Claude Code"),
    "hook": Command("admin", "hook", "answer a hook of a coding agent"),
    "guard install": Command("admin", "guard", "add git hooks that refuse pushes of lost claims"),
    "guard remove": Command("admin", "guard", "remove these hooks, and restore what was there"),
    "guard verify": Command("admin", "guard", "check the claims that commits name, for CI"),
    "guard hook": Command("admin", "guard", "answer a hook of git"),
    "github watch": Command("admin", "github", "turn issues, pull requests and failed builds into items"),
    "github test": Command("admin", "github", "show what a payload of GitHub would do"),
    "trust": Command("admin", "admin", "trust a board or dibs.toml of another user or a commit"),
    "config": Command("admin", "admin", "show every setting and its source"),
    "sweep": Command("admin", "admin", "end expired claims and apply what is due"),
    "doctor": Command("admin", "admin", "check the board for inconsistencies"),
    "prune": Command("admin", "archive", "delete items that ended long ago"),
    "backup": Command("admin", "archive", "back up the board while it is in use"),
    "restore": Command("admin", "archive", "replace the board with a backup"),
    "export": Command("admin", "archive", "write the whole board as JSON lines"),
    "import": Command("admin", "archive", "load an export into an empty board, or add tasks"),
    "mirror": Command("admin", "tasks", "keep a tasks file up to date with the board"),
    "copy": Command("admin", "archive", "copy a board to another store and verify the copy"),
    "remove-board": Command("admin", "removal", "remove the board and the files that dibs made for it"),
    "demo": Command("admin", "demo", "watch a fleet work on a temporary board"),
    "completion": Command("admin", "completion", "print completions for a shell"),
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
    "key rotate": ("dibs key rotate 5f0c2a91d3 --expires 30d",),
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
