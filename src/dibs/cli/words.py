"""Words and options that people and models try because other tools have them: gh, git, bd, kubectl.

A word with the meaning of a command is an alias of it. Any other word gets a hint, by its meaning: `try: ...` names
what to type. A mistyped word is answered by its spelling. No alias and no suggestion leads to a command that takes
something away: for these, a hint names the help. This module is imported only when a command or an option is unknown.
"""

from __future__ import annotations

from dibs.cli.commands import COMMANDS, FAMILIES, GLOBAL_OPTIONS
from dibs.model import STATUSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Commands that end or delete something, or take it from somebody. Nothing is guessed towards them.
DESTRUCTIVE = frozenset(
    {
        *("cancel", "force-release", "reject", "prune", "restore", "session end", "key revoke", "webhook remove"),
        *("guard remove", "worktree clean"),
    }
)

#: A word, and the words that replace it; an empty text is `dibs` without a command.
ALIASES = {
    "ls": "list",
    "ready": "list --status ready",
    "queue": "list --status ready",
    "backlog": "list --status ready",
    "wip": "list --status in_progress",
    "inbox": "list --status pending_approval",
    "approvals": "list --status pending_approval",
    "pending": "list --status pending_approval",
    "mine": "list --mine",
    "search": "list --search",
    "find": "list --search",
    "grep": "list --search",
    "query": "list --search",
    "take": "claim",
    "grab": "claim",
    "lock": "claim",
    "acquire": "claim",
    "reserve": "claim",
    "checkout": "claim",
    "pick": "next",
    "pop": "next",
    "pull": "next",
    "new": "add",
    "create": "add",
    "q": "add",
    "close": "done",
    "complete": "done",
    "finish": "done",
    "resolve": "done",
    "update": "edit",
    "modify": "edit",
    "set": "edit",
    "comment": "progress",
    "comments": "show",
    "note": "progress",
    "history": "log",
    "logs": "log",
    "blame": "log",
    "unclaim": "release",
    "unlock": "release",
    "drop": "release",
    "giveup": "release",
    "renew": "heartbeat",
    "beat": "heartbeat",
    "extend": "heartbeat",
    "keepalive": "heartbeat",
    "view": "show",
    "describe": "show",
    "cat": "show",
    "inspect": "show",
    "details": "show",
    "explain": "why",
    "status": "",
    "agents": "agent list",
    "keys": "key list",
    "webhooks": "webhook list",
    "worktrees": "worktree list",
    "session list": "sessions",
    "session new": "session start",
    "session create": "session start",
    "tasks list": "list",
    "agent add": "agent set",
    "agent create": "agent set",
    "key new": "key create",
    "key add": "key create",
    "claims": "who",
    "holders": "who",
    "ps": "who",
    "count": "stats",
    "metrics": "stats",
    "watch": "events --follow",
    "tail": "events --follow",
    "feed": "events",
    "fsck": "doctor",
    "check": "doctor",
    "verify": "doctor",
    "settings": "config",
    "where": "config",
    "version": "--version",
    **{status: f"list --status {status}" for status in STATUSES if status not in COMMANDS},
    **{status.replace("_", "-"): f"list --status {status}" for status in STATUSES if status not in COMMANDS},
}
#: Nouns before a verb, as in `gh issue list`. Alone, they list.
NOUNS = frozenset({"issue", "issues", "item", "items", "task", "ticket", "tickets", "bead", "beads", "todo", "todos"})
#: Second words of `dep` and `label`, and the option of `edit` that each stands for.
EDITS = {
    ("dep", "add"): "--add-needs",
    ("dep", "remove"): "--remove-needs",
    ("dep", "rm"): "--remove-needs",
    ("label", "add"): "--add-label",
    ("label", "remove"): "--remove-label",
    ("label", "rm"): "--remove-label",
}

_ASIDE = "items are not deleted; to set one aside, try: dibs park ITEM (to end it for good, see: dibs help cancel)"
_SAVED = "every command is saved at once; for a vault with a git remote, try: dibs vault sync"
_NEEDS = "try: dibs edit ITEM --add-needs OTHER"
#: What to type instead of a word that has no single meaning here. ITEM is replaced by the item that was named.
HINTS = {
    **dict.fromkeys(("rm", "delete", "remove", "del", "destroy", "purge", "archive"), _ASIDE),
    **dict.fromkeys(("pause", "defer", "hold", "shelve", "snooze", "stash", "skip"), "try: dibs park ITEM"),
    **dict.fromkeys(("resume", "undefer", "unhold", "activate"), "try: dibs unpark ITEM"),
    **dict.fromkeys(("sync", "push", "commit", "save", "fetch"), _SAVED),
    **dict.fromkeys(("dep", "deps", "block", "link", "depend", "needs", "depends"), _NEEDS),
    **dict.fromkeys(("assign", "reassign", "transfer", "handoff", "give"), "try: dibs hand ITEM --to SESSION"),
    **dict.fromkeys(("rename", "retitle"), 'try: dibs edit ITEM --title "..."'),
    **dict.fromkeys(("prioritize", "priority", "bump"), "try: dibs edit ITEM --priority high"),
    **dict.fromkeys(("label", "tag", "labels"), "try: dibs edit ITEM --add-label LABEL"),
    **dict.fromkeys(("run", "apply"), "try: dibs exec ITEM -- COMMAND, or for every item: dibs work -- COMMAND"),
    **dict.fromkeys(("start", "begin"), "try: dibs claim ITEM, or for the best item: dibs next"),
    **dict.fromkeys(("dashboard", "ui", "web", "board"), "try: dibs open (in a browser), or: dibs top"),
    **dict.fromkeys(("server", "daemon", "up"), "try: dibs serve"),
    **dict.fromkeys(("login", "auth"), "try: export DIBS_KEY=...; an admin makes a key with: dibs key create"),
    **dict.fromkeys(("quickstart", "onboard", "tutorial", "guide"), "try: dibs prime (for a model), or: dibs demo"),
    **dict.fromkeys(("clean", "gc", "cleanup", "compact"), "try: dibs prune --older-than 30d --dry-run"),
    **dict.fromkeys(
        ("steal", "takeover", "force"), "to queue for an item that is held, try: dibs claim ITEM --wait 10m"
    ),
    **dict.fromkeys(("deny", "decline", "wontfix"), "see: dibs help reject"),
    **dict.fromkeys(("kill", "abort", "stop", "quit"), "to give back your own claim, try: dibs release ITEM"),
    **dict.fromkeys(("tree", "graph"), "try: dibs show ITEM (what it needs), or: dibs list --status blocked"),
    **dict.fromkeys(("accept", "ack"), "try: dibs claim ITEM (an offer), or: dibs approve ITEM (a draft)"),
    **dict.fromkeys(("review", "reviews"), "try: dibs list --status pending_approval; then: dibs approve ITEM"),
    **dict.fromkeys(("completions", "autocomplete"), "try: dibs completion bash"),
    **dict.fromkeys(("upgrade", "migration"), "try: dibs migrate"),
    **dict.fromkeys(("info", "whoami", "me"), "try: dibs (what you hold and what is next), or: dibs config"),
    "undo": "there is no undo; see what happened, try: dibs log ITEM (then release, unpark, retry or reopen it)",
    "revert": "there is no undo; see what happened, try: dibs log ITEM (then release, unpark, retry or reopen it)",
    "requeue": "try: dibs release ITEM (your claim), or: dibs retry ITEM (a failed item)",
    "stale": "try: dibs who (the column after the session is the health of each claim)",
    "health": "try: dibs doctor (of the board), or: dibs who (of each claim)",
    "man": "try: dibs help COMMAND",
    "key delete": "see: dibs help key revoke",
    "key remove": "see: dibs help key revoke",
    "key rm": "see: dibs help key revoke",
    "webhook rm": "see: dibs help webhook remove",
    "webhook delete": "see: dibs help webhook remove",
    "session stop": "see: dibs help session end",
    "session close": "see: dibs help session end",
}

#: An option, and the name it has here, for every command that has the latter.
OPTION_ALIASES = {
    **dict.fromkeys(("--description", "--desc", "-d", "-b", "--text"), "--body"),
    **dict.fromkeys(("-l", "--labels", "--tag", "--tags"), "--label"),
    **dict.fromkeys(("--deps", "--dep", "--depends-on", "--depends", "--blocked-by", "--need"), "--needs"),
    **dict.fromkeys(("--state", "-s", "--statuses"), "--status"),
    **dict.fromkeys(("--types", "--kind"), "--type"),
    **dict.fromkeys(("-L", "--max-results", "--max-count"), "--limit"),
    **dict.fromkeys(("--lease", "--duration", "--for"), "--ttl"),
    **dict.fromkeys(("--defer", "--due", "--start", "--defer-until"), "--not-before"),
    **dict.fromkeys(("--add-labels", "--add-tag"), "--add-label"),
    **dict.fromkeys(("--remove-labels", "--rm-label", "--remove-tag"), "--remove-label"),
    **dict.fromkeys(("--add-need", "--add-dep", "--add-deps"), "--add-needs"),
    **dict.fromkeys(("--remove-need", "--remove-dep", "--remove-deps"), "--remove-needs"),
    **dict.fromkeys(("--db", "--board", "--database"), "--store"),
    **dict.fromkeys(("--sort-by", "--order-by", "--order"), "--sort"),
    **dict.fromkeys(("-S", "--query", "--grep", "--filter", "--find"), "--search"),
    **dict.fromkeys(("--me", "--my", "--own"), "--mine"),
    **dict.fromkeys(("--preview", "--what-if", "--dryrun"), "--dry-run"),
    **dict.fromkeys(("--no-colour", "--plain"), "--no-color"),
    **dict.fromkeys(("--ids", "--silent", "--id-only"), "--quiet"),
    "-A": "--all",
    "-y": "--yes",
    "-w": "--watch",
    "-f": "--follow",
}
#: The same, for one command: what other tools call the text that goes with an act.
_NOTES = ("-m", "--message", "--comment", "--note", "--notes", "--reason", "-r", "--summary")
COMMAND_OPTIONS = {
    **{("done", name): "--note" for name in _NOTES if name != "--note"},
    **{("submit", name): "--note" for name in _NOTES if name != "--note"},
    **{
        (command, name): "--reason"
        for command in ("fail", "release", "park", "unpark", "cancel", "retry", "reject", "hand", "reopen")
        for name in _NOTES
        if name != "--reason"
    },
    **{(command, name): "--comment" for command in ("approve", "send-back") for name in _NOTES if name != "--comment"},
    **{("list", name): "--agent" for name in ("--assignee", "--assigned", "--holder", "--owner", "-a", "--author")},
    **{("runs", name): "--agent" for name in ("--assignee", "--author", "-a")},
    ("add", "-F"): "--file",
}
#: What to type instead of an option, for every command or for one.
OPTION_HINTS = {
    **dict.fromkeys(("-o", "--output", "--format"), "for JSON, write --json"),
    **dict.fromkeys(("-v", "--verbose"), "--json prints every field"),
    **dict.fromkeys(("-C", "--dir", "--cwd", "-R", "--repo"), "for another board, write --store PATH"),
    **dict.fromkeys(("--no-headers", "--oneline"), "for ids alone, write -q; for programs, --json"),
    "--force": "nothing is forced; see --help for what confirms",
    "--parent": "items have no parents; for an order, write --needs ID",
    "--epic": "items have no parents; for an order, write --needs ID",
}
_STATUS = "a status follows from what is done: dibs claim ITEM, dibs done ITEM, dibs park ITEM, dibs reopen ITEM"
_CLAIMED = "items are claimed, not assigned: the holder is whoever types dibs claim ITEM"
COMMAND_OPTION_HINTS = {
    **{("edit", name): _STATUS for name in ("--status", "--state", "-s")},
    **{("add", name): _CLAIMED for name in ("--assignee", "-a", "--owner", "--assign")},
    **{("edit", name): "try: dibs hand ITEM --to SESSION" for name in ("--assignee", "-a", "--owner")},
    **{
        ("edit", name): 'try: dibs progress ITEM "..."' for name in ("--notes", "--append-notes", "--note", "--comment")
    },
    **{("edit", name): "write it into --body" for name in ("--design", "--acceptance")},
    **{("list", name): "try: dibs top, or: dibs events --follow" for name in ("--watch", "-w", "--follow", "-f")},
    **{("log", name): "try: dibs events --follow" for name in ("--watch", "-w", "--follow", "-f")},
    ("edit", "--claim"): "try: dibs claim ITEM",
    ("edit", "--id"): "the id of an item does not change",
    ("list", "-p"): "the highest priority is listed first",
    ("list", "--priority"): "the highest priority is listed first",
    ("list", "--unassigned"): "try: dibs list --status ready",
    ("list", "--ready"): "try: dibs list --status ready",
    ("list", "--blocked"): "try: dibs list --status blocked",
    ("list", "--open"): "without an option, open items are listed",
    ("list", "--closed"): "try: dibs list --status closed",
    ("list", "--since"): "try: dibs list --sort updated, or: dibs timeline --since 4h",
    ("events", "--since"): "try: dibs timeline --since 4h, or --after N",
    ("log", "--since"): "try: dibs timeline --since 4h",
    ("claim", "--force"): "a claim never takes an item from its holder; to queue for it, write --wait 10m",
    ("claim", "-f"): "a claim never takes an item from its holder; to queue for it, write --wait 10m",
    ("claim", "--next"): "try: dibs next",
}
#: Groups of statuses for `list --status`, by what trackers call them.
STATUS_WORDS = {
    "todo": "ready",
    "wip": "in_progress",
    "inprogress": "in_progress",
    "doing": "in_progress",
    "claimed": "in_progress",
    "held": "in_progress",
    "deferred": "parked",
    "review": "pending_approval",
    "in_review": "pending_approval",
    "canceled": "cancelled",
    "completed": "done",
}
#: Commands about a claim of the caller.
OWN = frozenset({"heartbeat", "progress", "release", "done", "fail", "submit", "hand"})
#: How alike a mistyped word and the right one have to be.
NEAR = 0.78


def meant(name: str | None, rest: list[str]) -> list[str] | None:
    """The command line that an alias stands for; None if the word is no alias."""
    if name is None:
        return None
    if name in ("get", *NOUNS):
        return _noun(name, rest)
    if name in ("dep", "label"):
        return _edited(name, rest)
    if name == "status" and _first(rest) is not None:
        return ["show", *rest]
    if name == "search" and len(rest) > 1 and rest[0] in NOUNS:
        rest = rest[1:]
    return [*ALIASES[name].split(), *rest] if name in ALIASES else None


def hint(name: str, rest: list[str]) -> str:
    """What to say of a word that is no command and no alias."""
    named = _first(rest)
    if name in HINTS:
        return f"unknown command {name!r}; {_filled(HINTS[name], named)}"
    if name in FAMILIES:
        return f"dibs {name} is not complete; type " + family_commands(name)
    near = _nearest(name, [*COMMANDS, *ALIASES])
    if near is None and (family := name.partition(" ")[0]) in FAMILIES:
        return f"unknown command {name!r}; type " + family_commands(family)
    if near is None:
        return f"unknown command {name!r}; see: dibs --help"
    if near in DESTRUCTIVE:
        return f"unknown command {name!r}; see: dibs help {near}"
    return f"unknown command {name!r}; did you mean: dibs {ALIASES.get(near, near)}".rstrip()


def family_commands(family: str) -> str:
    return " or ".join(f"dibs {name}" for name in COMMANDS if name.split()[0] == family)


def option_alias(command: str, typed: str, known: Mapping[str, object]) -> str | None:
    """The option that `typed` stands for in this command, if there is one."""
    found = COMMAND_OPTIONS.get((command, typed), OPTION_ALIASES.get(typed))
    return found if found in known else None


def option_hint(command: str, typed: str, known: Mapping[str, object]) -> str:
    """What to say of an unknown option."""
    said = COMMAND_OPTION_HINTS.get((command, typed), OPTION_HINTS.get(typed))
    if said is not None:
        return said
    words = {option.lstrip("-"): option for option in known if option.startswith("--")}
    near = _nearest(typed.lstrip("-"), list(words)) if len(typed) > 2 else None
    if near:
        return f"did you mean {words[near]}"
    return f"see: {' '.join(['dibs', *command.split(), '--help'])}; write -- before text that starts with -"


def missing_hint(command: str, missing: list[str]) -> str:
    """How to find out what is missing."""
    if "ITEM" not in missing:
        return ""
    if command == "log":
        return "; for the whole board: dibs events"
    return "; what you hold: dibs list --mine" if command in OWN else "; to see ids: dibs list"


def argument_hint(command: str, extra: str, *, one_item: bool) -> str:
    """What to say of a word that is one too many."""
    if one_item:
        return "name one item at a time"
    if command == "list":
        status = extra.replace("-", "_")
        return f"try: dibs list --status {status}" if status in STATUSES else f"try: dibs list --search {extra}"
    return "put text with spaces in quotes"


def _noun(name: str, rest: list[str]) -> list[str]:
    """`gh issue list`, `kubectl get items`, `kubectl get item x`."""
    left = [word for number, word in enumerate(rest) if not (number == 0 and word in NOUNS)]
    first = _first(left)
    if first is None:
        return ["list", *left]
    is_verb = name != "get" and (first in COMMANDS or first in ALIASES or first in HINTS)
    return left if is_verb else ["show", *left]


def _edited(name: str, rest: list[str]) -> list[str] | None:
    """`dep add ITEM OTHER` and `label add ITEM LABEL`, in the order of bd; without both, there is only a hint."""
    words = [word for word in rest if not word.startswith("-")]
    if len(words) == 2 and words[0] in ("list", "tree"):
        return ["show", words[1], *(word for word in rest if word.startswith("-"))]
    option = EDITS.get((name, words[0])) if words else None
    if option is None or len(words) < 3:
        return None
    values = [word for value in words[2:] for word in (option, value)]
    return ["edit", words[1], *values, *(word for word in rest if word.startswith("-"))]


def _first(rest: list[str]) -> str | None:
    """The first word that is no option and no value of one that may precede a command."""
    skip = False
    for word in rest:
        if skip or word.startswith("-"):
            skip = not skip and GLOBAL_OPTIONS.get(word, False)
            continue
        return word
    return None


def _filled(text: str, named: str | None) -> str:
    from dibs import check
    from dibs.errors import Invalid

    try:
        return text.replace("ITEM", check.item_id(named))
    except Invalid:
        return text


def _nearest(typed: str, known: list[str]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(typed, known, n=1, cutoff=NEAR)), None)
