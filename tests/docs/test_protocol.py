"""docs/protocol.md against the code: states, refusals, verbs, values, events, commands."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dibs import check, model
from dibs.board import Board
from dibs.check import NEXT_MAX
from dibs.cli.commands import COMMANDS
from dibs.cli.completion import options
from dibs.cli.identity import CLIENTS, MARKERS
from dibs.cli.parser import Parser, build
from dibs.config import DEFAULTS, ENV_SESSION
from dibs.errors import DibsError, Invalid, NotTrusted, StoreUnusable, Unauthenticated
from dibs.model import EDITABLE, STATUSES, NewItem, dashboard, webhooks
from dibs.rules import event_kinds
from dibs.rules.items import APPROVED_CONTENT, HELD_CONTENT
from dibs.rules.resources import normalize, overlap
from dibs.rules.table import RESTING, TRANSITIONS
from dibs.server.streams import vitals
from dibs.text import priorities, times
from dibs.value import Value
from dibs.verbs import VERBS
from tests.docs.board import Led
from tests.docs.markdown import blocks, code, prose, read, section, table
from tests.docs.shop import Shop
from tests.docs.test_reference import kinds
from tests.kit.contract import Contract

PROTOCOL = read("docs/protocol.md")

#: What a board has besides verbs.
NO_VERBS = {"close", "check", "watch", "reap_dead_owners", "record_due", "keep_key", "session", "asession"}
#: Verbs that say no only to wrong input, or when the store does not answer.
NEVER_REFUSED = {
    *("list", "set_agent", "agents", "sessions", "sweep", "prune", "export"),
    *("runs", "activity", "who", "stats", "view", "page", "keys", "webhooks"),
}
#: Values that no verb answers with.
NOT_ANSWERED = (Value, NewItem, model.Request, webhooks.Attempt, webhooks.Taken)
#: How the picture says what is no call: the words for these verbs of the table. `edit` is not drawn.
DRAWN = {"expire": "expiry", "owner_died": "dead owner", "settle": "unblocked", "edit": "due"}
#: What an event changes and its row does not name: a claim is an attempt, and text below the table tells of offers.
UNTOLD = {"claimed": {"attempts"}, "restored": {"offered_to", "offer_expires_at"}}
#: What an event has more if it takes an item away from whom it was offered to.
NO_LONGER_OFFERED = {"offered_to": None, "offer_expires_at": None}
#: How the reason of a ticket begins whose session was offered the item and refused it.
COULD_NOT_ACCEPT = "its session could not accept: "
EVERYWHERE = {"--store", "--json", "--brief", "--no-color", "-h", "--help"}


def check_transitions(text: str) -> None:
    told: dict[str, dict[str, tuple[str, ...]]] = {}
    for verb, before, after in table(text, "verb", "before", "after"):
        for status in code(before):
            assert status not in told.get(code(verb)[0], {}), f"{verb} {status} stands there twice"
            told.setdefault(code(verb)[0], {})[status] = tuple(code(after))
    assert told == TRANSITIONS


def check_picture(text: str) -> None:
    picture = blocks(section(text, "## States"), "text")[0]
    for word in (*STATUSES, *TRANSITIONS.keys() - DRAWN.keys(), *DRAWN.values(), "strike", "retries"):
        assert re.search(rf"\b{word}\b", picture), f"{word} is not in the picture"
    places = [picture.index(f"│  {status} ") for status in RESTING]
    assert places == sorted(places), "where an item rests, in the order in which that is decided"


def check_refusals(text: str) -> None:
    rows = table(text, "code", "HTTP", "exit")
    told = {(code(name)[0], int(status), int(exit_code)) for name, status, exit_code, *_ in rows}
    known = {(kind.code, kind.http_status, kind.exit_code) for kind in kinds(DibsError) - {DibsError, StoreUnusable}}
    assert told == known
    assert len(rows) == len(known), "each code once"


def check_facts(text: str, refusals: list[DibsError]) -> None:
    """What a refusal carries is what its line says; INVALID may carry more, by what was wrong."""
    rows = table(text, "code", "HTTP", "exit")
    told = {code(name)[0]: set(code(facts)) for name, _, _, _, facts in rows}
    seen: dict[str, set[str]] = {}
    for refusal in refusals:
        seen.setdefault(refusal.code, set()).update(refusal.facts)
    elsewhere = {Unauthenticated.code, NotTrusted.code}
    assert seen.keys() == told.keys() - elsewhere, "but for what only a server says, or a search for a board"
    for name, facts in seen.items():
        assert facts == told[name] or (name == Invalid.code and facts >= told[name]), name


def check_verbs(text: str) -> None:
    verbs = section(text, "## Verbs")
    beneath = section(text, "### Beneath the verbs")
    headings = set(re.findall(r"^### (\w+)$", verbs, re.MULTILINE))
    of_board = {name for name, _ in inspect.getmembers(Board, inspect.isfunction) if not name.startswith("_")}
    assert headings == of_board - NO_VERBS
    below = {re.match(r"\w+", words)[0] for words in re.findall(r"^- `([^`]+)`", beneath, re.MULTILINE)}  # type: ignore[index]
    of_store = {name for name in Contract.__abstractmethods__ if not name.startswith("_")}
    assert of_store - headings == below


def check_signatures(text: str) -> None:
    for verb in re.findall(r"^### (\w+)$", section(text, "## Verbs"), re.MULTILINE):
        unwrapped = " ".join(section(text, f"### {verb}").split())
        said = re.search(rf"`{verb}\(([^)]*)\)(?: -> ([\w ,\[\]|]+))?`", unwrapped)
        assert said, f"{verb} has no signature"
        words, answer = said.groups()
        needed, _, optional = words.partition("[")
        assert (_names(needed), _names(optional)) == _arguments(verb), verb
        assert answer == _answer(verb), verb


def check_every_verb_says_how_it_is_refused(text: str) -> None:
    for verb in re.findall(r"^### (\w+)$", section(text, "## Verbs"), re.MULTILINE):
        assert verb in NEVER_REFUSED or "efused" in section(text, f"### {verb}"), verb


def check_values(text: str) -> None:
    told = {name: tuple(code(fields)) for name, fields in table(text, "value", "fields")}
    known = {
        kind.__name__: _own_fields(kind)
        for kind in (vars(model) | vars(dashboard) | vars(webhooks)).values()
        if isinstance(kind, type) and issubclass(kind, Value) and kind not in NOT_ANSWERED
    }
    assert told == known


def _own_fields(kind: type[Value]) -> tuple[str, ...]:
    """A value that derives from another is told as that one, and what it has besides."""
    inherited = {name for base in kind.__mro__[1:] if issubclass(base, Value) for name in base._fields}
    return tuple(name for name in kind._fields if name not in inherited)


def check_routes(text: str) -> None:
    told = {(code(verb)[0], code(route)[0], role) for verb, route, role in table(text, "verb", "route")}
    assert told == {(verb.name, f"{verb.method} {verb.path.replace(':path', '')}", verb.role) for verb in VERBS}


def check_example(text: str) -> None:
    (example,) = blocks(section(text, "## JSON"), "json")
    grant = json.loads(example)
    assert tuple(grant) == model.Grant._fields
    assert tuple(grant["item"]) == model.Item._fields
    assert tuple(grant["claim"]) == model.Claim._fields


def check_vitals(text: str) -> None:
    """The example has the shape of a message in a stream."""
    (example,) = blocks(section(text, "### Vitals"), "json")
    told = json.loads(example)
    nothing = dashboard.Vitals(event=1, at=0, claims={}, seen={}, queues={}, seats=())
    sent = vitals.difference(nothing, nothing.replace(claims={"fix-login": (0, 3)}))
    assert [len(renewal) for renewal in told["renewed"].values()] == [len(sent["renewed"]["fix-login"])]
    assert (told.keys(), told["sessions"].keys()) == (sent.keys(), sent["sessions"].keys())


def check_events(text: str, led: Led) -> None:
    """Every kind that there is, with the statuses, the holder and the data that it really has."""
    rows = {
        code(kind)[0]: (status, holder, data) for kind, _, status, holder, data in table(text, "kind", "written by")
    }
    assert {event.kind for event in led.events} == set(rows)
    assert list(rows) == list(event_kinds.BY_NAME)
    for known in event_kinds.EVENT_KINDS:
        status, _, data = rows[known.name]
        assert code(status) == ([] if known.after == STATUSES else list(known.after)), known.name
        told = set(code(data)) | (set(EDITABLE) if known.name == "edited" else set())
        assert told & set(model.Item._fields) == set(known.changes) - {"token"} - UNTOLD.get(known.name, set()), (
            known.name
        )
    seen: dict[str, set[str]] = {}
    for event in led.events:
        status, holder, data = rows[event.kind]
        assert event.status in (code(status) or STATUSES), event
        assert (event.agent is not None) == bool(holder) or ", if it " in holder, event
        found = event.data
        if "offered_to" not in data and found.items() >= NO_LONGER_OFFERED.items():
            found = {name: value for name, value in found.items() if name not in NO_LONGER_OFFERED}
        needed, possible = set(code(data.partition("[")[0])), set(code(data))
        if event.kind == "edited":
            needed, possible = set(), possible | set(EDITABLE)
        assert needed <= found.keys() <= possible, event
        seen.setdefault(event.kind, set()).update(found)
    for kind, (_, _, data) in rows.items():
        assert set(code(data)) <= seen[kind], f"{kind}: nothing of {data} was seen"


def check_commands(text: str) -> None:
    rows = table(text, "command", "options")
    told = {code(command)[0]: set(code(flags)) for command, flags, *_ in rows}
    parsers = [build(name, command)[0] for name, command in COMMANDS.items()]
    assert told == {_line(parser): parser.options.keys() - EVERYWHERE for parser in parsers}


def check_times(text: str) -> None:
    of_item = {"timeout_seconds": float(model.DEFAULT_TIMEOUT_SECONDS)}
    known: dict[str, float] = {**DEFAULTS.as_dict(), **of_item}
    for _, defaults, settings in table(text, "what", "default", "setting"):
        said = [times.parse_duration(words) for words in code(defaults)]
        assert said[0] == known[code(settings)[0]], settings
        if "timeout_seconds" in settings:
            assert said[1:] == [1, check.TIMEOUT_SECONDS_MAX]
        else:
            assert said == [known[name] for name in code(settings)], settings


def check_limits(text: str) -> None:
    limits = {words: _numbers(limit) for words, limit in table(text, "what", "limit")}
    for words, number in (
        ("id of an item", check.ID_LENGTH_MAX),
        ("type, action", check.NAME_LENGTH_MAX),
        ("title", check.TITLE_LENGTH_MAX),
        ("subject", check.SUBJECT_LENGTH_MAX),
        ("body", check.TEXT_BYTES_MAX),
        ("payload", check.JSON_BYTES_MAX),
        ("note", check.NOTE_BYTES_MAX),
        ("labels", check.ENTRIES_MAX),
        ("resource", check.RESOURCE_BYTES_MAX),
        ("`retries`", check.RETRIES_MAX),
        ("`n` of", NEXT_MAX),
        ("items in one `add_many`", check.BATCH_MAX),
        ("items in `done`", check.BATCH_MAX),
        ("items in `holding`", check.HOLDING_MAX),
        ("`limit` of", check.LIST_MAX),
    ):
        (row,) = [row for row in limits if row.startswith(words)]
        assert number in limits[row], row


def check_priorities(text: str) -> None:
    told = {}
    _, _, named = section(text, "## Input").partition("By name:")
    for names, number in re.findall(r"((?:`\w+`(?:\s+or\s+)?)+)\s+(\d+)", named):
        told.update(dict.fromkeys(code(names), int(number)))
    assert told == priorities.NAMES


def check_resources(text: str) -> None:
    resources = section(text, "## Resources")
    for given, kept in table(resources, "given", "kept as"):
        assert normalize(code(given)[0]) == code(kept)[0], given
    answers = set()
    for one, other, told in table(resources, "one", "other", "overlap"):
        really = overlap(normalize(code(one)[0]), normalize(code(other)[0]))
        assert told == ("yes" if really else "no"), f"{one} and {other}"
        answers.add(told)
    assert answers == {"yes", "no"}


def check_approved_content(text: str) -> None:
    (told,) = re.findall(r"approved is edited: ([a-z, \n]+)\.", section(text, "## Approvals and policy"))
    assert _names(told) - {"or"} == APPROVED_CONTENT
    (told,) = re.findall(r"^([A-Z][a-z, ]+) of an item cannot be edited while", text, re.MULTILINE)
    assert _names(told.lower()) - {"and"} == HELD_CONTENT


def check_tickets(text: str, led: Led) -> None:
    """Every reason for which a ticket is closed."""
    rows = table(section(text, "## Waiting for one item"), "reason", "when")
    told = {code(reason)[0] for reason, _ in rows}
    codes = {refusal.code for refusal in led.refusals}
    given = {ticket["reason"] for kind, ticket in led.records if kind == "ticket"} - {None}
    refused = {reason for reason in given if reason.removeprefix(COULD_NOT_ACCEPT) in codes}
    ended = {reason for reason in given if reason.removeprefix("the item is ") in STATUSES}
    assert refused, "no offer was refused"
    assert ended
    assert told == given - refused - ended | {"the item is STATUS", f"{COULD_NOT_ACCEPT}CODE"}


def check_activity(text: str, led: Led) -> None:
    """What is kept of a refused claim."""
    (told,) = re.findall(r"in `details` (.*?)\. The latest", section(text, "## Refused claims"), re.DOTALL)
    details = [activity["details"] for kind, activity in led.records if kind == "activity"]
    assert any(kept["holder"] for kept in details)
    assert all(set(kept) == set(code(told)) for kept in details)


def check_reasons(text: str, led: Led) -> None:
    """Every answer to `why`."""
    told = {
        code(name)[0]: yes for name, yes, _ in table(section(text, "## Why not"), "code", "`claimable`") if code(name)
    }
    codes = {kind.code for kind in kinds(DibsError)}
    given = {reason.code: str(reason.claimable).lower() for reason in led.reasons}
    assert given.keys() & codes, "nothing stood in the way"
    assert told == {name: yes for name, yes in given.items() if name not in codes}
    assert {yes for name, yes in given.items() if name in codes} == {"false"}


def check_records(text: str, led: Led) -> None:
    """Every kind of record that an export has, in its order, with its fields."""
    rows = [(code(kind)[0], value) for kind, value in table(section(text, "### Export and import"), "record", "value")]
    assert [kind for kind, _ in rows] == list(dict.fromkeys(kind for kind, _ in led.records))
    for kind, value in led.records:
        assert set(value) == _fields(dict(rows)[kind]), kind


def check_outcomes(text: str, led: Led) -> None:
    (told,) = re.findall(r"The `outcome` of a run is .*?\((.*?)\)", text, re.DOTALL)
    assert set(code(told)) == {run["outcome"] for kind, run in led.records if kind == "run"} - {None}


def check_identity(text: str) -> None:
    _, _, of_clients, _, of_markers, *_ = re.split(r"^\d\. ", section(text, "### Identity"), flags=re.MULTILINE)
    assert [name for name in code(of_clients) if name != ENV_SESSION] == list(CLIENTS)
    assert code(of_markers) == list(MARKERS)


CHECKS: tuple[Callable[[str], None], ...] = (
    check_transitions,
    check_picture,
    check_refusals,
    check_verbs,
    check_signatures,
    check_every_verb_says_how_it_is_refused,
    check_values,
    check_example,
    check_vitals,
    check_commands,
    check_times,
    check_limits,
    check_priorities,
    check_resources,
    check_approved_content,
    check_routes,
    check_identity,
)
LED_CHECKS: tuple[Callable[[str, Led], None], ...] = (
    check_tickets,
    check_activity,
    check_reasons,
    check_records,
    check_outcomes,
)


@pytest.mark.parametrize("compare", CHECKS, ids=lambda compare: compare.__name__.removeprefix("check_"))
def test_the_protocol_says_what_the_code_does(compare: Callable[[str], None]) -> None:
    compare(PROTOCOL)


@pytest.mark.parametrize("compare", LED_CHECKS, ids=lambda compare: compare.__name__.removeprefix("check_"))
def test_the_protocol_says_what_a_board_was_seen_to_do(compare: Callable[[str, Led], None], led: Led) -> None:
    compare(PROTOCOL, led)


def test_a_refusal_carries_the_facts_it_is_said_to(led: Led) -> None:
    check_facts(PROTOCOL, led.refusals)


def test_an_event_holds_the_data_it_is_said_to(led: Led) -> None:
    check_events(PROTOCOL, led)


#: The id of the first webhook, for a shell.
_WEBHOOK = "$(dibs webhook list | awk 'NR == 2 { print $1 }')"
#: A line for each command whose JSON is compared, and which of the shapes in its row it gives.
LINES = {
    "init": ("dibs init", 0),
    "setup": ("dibs setup claude --yes", 0),
    "setup --check": ("dibs setup claude --check", 1),
    "vault init": ("dibs vault init tasks", 0),
    "vault hub": ("dibs vault hub init hub.git", 0),
    "add": ("dibs add 'Fix login' --id a", 0),
    "add --file": ("dibs add --file items.jsonl", 1),
    "next": ("dibs next -n 2", 0),
    "claim": ("dibs claim a", 0),
    "claim --soft": ("dibs claim a --soft", 1),
    "release --soft": ("dibs release a --soft", 1),
    "progress": ("dibs progress a half", 0),
    "heartbeat": ("dibs heartbeat", 0),
    "heartbeat ITEM": ("dibs heartbeat a", 1),
    "wait": ("dibs wait a --session b", 0),
    "leave": ("dibs leave a --session b", 0),
    "hand": ("dibs hand b --to b", 0),
    "why": ("dibs why a", 0),
    "show": ("dibs show a", 0),
    "who": ("dibs who", 0),
    "who --resources": ("dibs who --resources", 1),
    "list": ("dibs list", 0),
    "edit": ("dibs edit a --title 'Fix the login'", 0),
    "release": ("dibs release a", 0),
    "park": ("dibs park a", 0),
    "unpark": ("dibs unpark a", 0),
    "force-release": ("dibs force-release b --reason stuck", 0),
    "done": ("dibs next >/dev/null; dibs done a", 0),
    "annotate": ("dibs annotate a --check ci=passed", 0),
    "fail": ("dibs claim b >/dev/null; dibs fail b", 0),
    "retry": ("dibs retry b", 0),
    "submit": ("dibs claim b >/dev/null; dibs submit b --draft this", 0),
    "send-back": ("dibs send-back b --comment shorter", 0),
    "approve": ("dibs add Mail --id c --needs-approval >/dev/null; dibs approve c", 0),
    "reject": ("dibs claim c >/dev/null; dibs reject c --reason never", 0),
    "cancel": ("dibs cancel b", 0),
    "reopen": ("dibs reopen b", 0),
    "log": ("dibs log a", 0),
    "events": ("dibs events", 0),
    "runs": ("dibs runs", 0),
    "stats": ("dibs stats", 0),
    "stats --since": ("dibs stats --since 1h", 1),
    "timeline": ("dibs timeline", 0),
    "sweep": ("dibs sweep", 0),
    "doctor": ("dibs doctor", 0),
    "agent set": ("dibs agent set reviewer", 0),
    "agent list": ("dibs agent list", 0),
    "session start": ("dibs session start", 0),
    "sessions": ("dibs sessions", 0),
    "session end": ("dibs session end", 0),
    "backup": ("dibs backup monday.db", 0),
    "restore": ("dibs restore monday.db --yes", 0),
    "prune": ("dibs prune --older-than 0s --yes", 0),
    "export": ("dibs export board.jsonl", 0),
    "import": ("dibs init --store new.db >/dev/null; dibs import board.jsonl --store new.db", 0),
    "import --from": ("echo '[]' > tasks.json; dibs import --from tasks tasks.json", 1),
    "mirror": ("dibs mirror tasks.json --once", 0),
    "tasks link": ("CLAUDE_CONFIG_DIR=$PWD/claude dibs tasks link shop", 0),
    "copy": ("dibs copy . copy.db", 0),
    "migrate": ("dibs migrate", 0),
    "key create": ("dibs key create --role viewer", 0),
    "key list": ("dibs key list", 0),
    "key rotate": ("dibs key rotate $(dibs key list | awk 'NR == 2 { print $1 }')", 0),
    "key revoke": ("dibs key revoke $(dibs key list | awk 'NR == 2 { print $1 }')", 0),
    "webhook add": ("dibs webhook add http://127.0.0.1:1/ --kind done --allow-private", 0),
    "webhook list": ("dibs webhook list", 0),
    "webhook rotate": (f"dibs webhook rotate {_WEBHOOK}", 0),
    "webhook pause": (f"dibs webhook pause {_WEBHOOK}", 0),
    "webhook resume": (f"dibs webhook resume {_WEBHOOK}", 0),
    "webhook test": (f"dibs webhook test {_WEBHOOK}", 0),
    "webhook dead": (f"dibs webhook dead {_WEBHOOK}", 0),
    "webhook retry": (f"dibs webhook retry {_WEBHOOK}", 0),
    "webhook remove": (f"dibs webhook remove {_WEBHOOK}", 0),
    "trust": ("dibs trust .", 0),
    "trust --list": ("dibs trust --list", 1),
    "config": ("dibs config", 0),
    "completion": ("dibs completion bash", 0),
    "prime": ("dibs prime", 0),
    "worktree list": ("git init -q repository; cd repository; dibs worktree list", 0),
    "github test": ("echo '{}' > payload.json; dibs github test payload.json --event issues", 0),
    "worktree clean": ("cd repository; dibs worktree clean", 0),
    "remove-board": ("dibs remove-board --store new.db --yes", 0),
}
#: How a line of the above is named where its command gives more than one shape.
WHICH = re.compile(r" (--\w+|ITEM)$")
#: They take their time, a server, a terminal, a clone or a repository, and have tests of their own.
NOT_RUN = {"work", "exec", "demo", "serve", "open", "top", "mcp", "key link", "vault sync", "hook", "deliver"}
NOT_RUN |= {"guard install", "guard remove", "guard verify", "guard hook", "github watch"}


def check_json(text: str, shop: Shop) -> None:
    (shop.folder / "items.jsonl").write_text('{"title": "Fix logout", "id": "b"}\n')
    shapes = {_command(command): prints.split(";") for command, _, prints, *_ in table(text, "command", "options")}
    assert {WHICH.sub("", name) for name in LINES} == shapes.keys() - NOT_RUN
    for name, (line, part) in LINES.items():
        answer = shop.answer(f"export DIBS_SESSION=coder-1 DIBS_AGENT=coder; {line}")
        assert set(answer) == _fields(shapes[WHICH.sub("", name)][part]), line


def test_every_command_prints_what_it_is_said_to(tmp_path: Path) -> None:
    check_json(PROTOCOL, Shop(tmp_path))


def test_every_option_has_a_command_that_takes_it() -> None:
    known = {flag for flags in options().values() for flag in flags}
    for name in ("README.md", "docs/protocol.md"):
        text = prose(read(name))
        said = {flag for words in code(text) for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", words)}
        assert said <= known, f"{name} speaks of {said - known}"


def _line(parser: Parser) -> str:
    """A command with its words, those that may be left out in brackets."""
    words = [f"{word.metavar}" if word.required else f"[{word.metavar}]" for word in parser.arguments]
    return " ".join([parser.name, *words])


def _command(cell: str) -> str:
    return re.sub(r" \[?[A-Z]+\]?", "", code(cell)[0])


def _fields(shape: str) -> set[str]:
    value = re.search(r"\ban? ([A-Z]\w+)", shape)
    if value:
        return set(getattr(model, value[1])._fields)
    return {word for word in code(shape) if not word.startswith("-")}


def _numbers(words: str) -> set[int]:
    return {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", words)}


def _names(words: str) -> set[str]:
    return set(re.findall(r"\w+", words))


def _arguments(verb: str) -> tuple[set[str], set[str]]:
    """The arguments of a board's verb: those that are needed, and those that may be left out."""
    needed, optional = set(), set()
    for name, parameter in inspect.signature(getattr(Board, verb)).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            optional |= set(EDITABLE) if verb == "edit" else set(NewItem._fields) - {"title"}
        elif parameter.default is parameter.empty:
            needed.add(name)
        else:
            optional.add(name)
    return needed - {"self"}, optional - needed


def _answer(verb: str) -> str | None:
    annotation = str(inspect.signature(getattr(Board, verb)).return_annotation)
    if annotation.startswith("Iterator") or annotation == "None":
        return None
    many = re.fullmatch(r"(?:tuple|Page)\[(\w+)(?:, \.\.\.)?\]", annotation)
    return f"list of {many[1]}" if many else annotation
