"""Those who work: agents and their sessions."""

from __future__ import annotations

import sys

from dibs.cli import identity
from dibs.cli.claim_commands import json_object
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import agent_colour, ago, clean, table, terminal_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.model import Agent

SESSIONS_LIMIT = 1000


def agent_set_options(parser: Parser) -> None:
    parser.word("name", "the agent's name")
    parser.option("--type", metavar="T", help="a type it takes; none means every type", repeated=True)
    parser.option("--role", metavar="ROLE", help="its role")
    parser.number("--max-claims", help="how many items one of its sessions may hold")
    parser.number("--max-claims-total", help="how many all its sessions may hold")
    parser.rate("--claims-per-minute", help="how many items it may claim a minute")
    parser.number("--burst", help="how many of these at once (1)")
    parser.option("--allow", metavar="ACTION", help="an action it may do; may be repeated", repeated=True)
    parser.option(
        "--sensitive",
        metavar="ACTION",
        help="one it drafts; with --allow, does once approved",
        repeated=True,
    )
    parser.option("--reset", help="forget first what was said of it before")


def agent_set(cli: Cli) -> None:
    """Create the agent, or change what is named; what is not stays, above all a policy."""
    asked = cli.args
    said = {
        "types": asked.type,
        "role": asked.role,
        "max_claims": asked.max_claims,
        "max_claims_total": asked.max_claims_total,
        "claims_per_minute": asked.claims_per_minute,
        "claims_burst": asked.burst,
        "allowed_actions": asked.allow,
        "sensitive_actions": asked.sensitive,
    }
    known = next((agent for agent in cli.board.agents() if agent.name == asked.name), None)
    before = {} if known is None or asked.reset else {field: getattr(known, field) for field in said}
    named = {field: value for field, value in said.items() if value not in (None, [])}
    agent = cli.board.set_agent(asked.name, **before | named)
    if cli.json:
        return cli.answer({"agent": agent})
    limits, policy = ", ".join(_limits(agent)), ", ".join(_policy(agent))
    words = [f"takes {', '.join(agent.types) or 'every type'}", f"at most {limits}" if limits else "", policy]
    words.append(f"role {agent.role}" if agent.role else "")
    replaced = [] if known is None else _replaced(known, agent, said)
    return cli.say(f"{cli.paint.agent(agent.name)} {clean('; '.join(filter(None, words)))}", *replaced)


def _replaced(before: Agent, after: Agent, fields: Iterable[str]) -> list[str]:
    """Which lists of an agent that was there give way to others; or that nothing has changed."""
    changed = [field for field in fields if getattr(before, field) != getattr(after, field)]
    if not changed:
        return ["  unchanged"]
    lines = []
    for field in changed:
        was, now = getattr(before, field), getattr(after, field)
        if was and isinstance(was, tuple):
            gone = f"replaced by {', '.join(now)}" if now else "taken away"
            lines.append(clean(f"  {field.replace('_', ' ')}: {', '.join(was)} {gone}"))
    return lines


def agent_list_options(parser: Parser) -> None:
    """It takes what every command takes."""


def agent_list(cli: Cli) -> None:
    agents = cli.board.agents()
    if cli.json:
        return cli.answer({"agents": agents})
    if not agents:
        return cli.remark("no agents yet; they come with their first session, or with: dibs agent set NAME")
    rows = [
        [
            agent.name,
            ", ".join(agent.types) or "every type",
            ", ".join(_limits(agent)) or "no limit",
            ", ".join(_policy(agent)) or "may do anything",
            agent.role or "",
        ]
        for agent in agents
    ]
    styles = [[agent_colour(agent.name)] for agent in agents]
    columns = terminal_columns(sys.stdout)
    header = ("agent", "takes", "claims", "actions", "role")
    return cli.say(*table(rows, header=header, styles=styles, shrink=(1, 3, 2, 0), columns=columns, paint=cli.paint))


def session_start_options(parser: Parser) -> None:
    parser.option("--agent", metavar="NAME", help="whose session it is (else DIBS_AGENT, else you)")
    parser.option("--id", metavar="ID", help="its id; without one it gets one")
    parser.option("--kind", metavar="KIND", help="cli, autonomous, ...; claims of a person last longer")
    parser.number("--owner-pid", metavar="PID", help="the process whose death ends the session's claims")
    parser.option("--meta", metavar="JSON", help="anything worth showing, as a JSON object")


def session_start(cli: Cli) -> None:
    """Start a session. Prints nothing but its id, so that a shell can keep it."""
    asked, agent = cli.args, identity.own_agent(cli)
    if agent is None:
        raise UsageError(f"say whose session it is: {identity.START_LINE % 'NAME'}", field="agent")
    from dibs.model import PERSON

    session = cli.board.start_session(
        agent,
        id=asked.id,
        kind=asked.kind or (PERSON if identity.caller(cli).person else "cli"),
        owner_pid=asked.owner_pid,
        meta=json_object(asked.meta, "meta"),
    )
    if asked.kind and session.kind != asked.kind:
        cli.remark(f"session {session.id} is live already, and stays of kind {session.kind}")
    return cli.answer({"session": session}) if cli.json else cli.say(session.id)


def session_end_options(parser: Parser) -> None:
    parser.word("id", "the session to end (your own)", optional=True)
    parser.reason()
    parser.request_id()
    parser.identity()


def session_end(cli: Cli) -> None:
    asked = cli.args
    mine = asked.id or identity.own_session(cli)
    ended = cli.board.end_session(mine, reason=asked.reason, request_id=asked.request_id)
    if cli.json:
        return cli.answer(ended)
    released = f"released {', '.join(ended.released)}" if ended.released else "it held nothing"
    return cli.say(f"{cli.paint('ended', 'green')} {cli.paint(ended.session.id, 'bold')}  {released}")


def sessions_options(parser: Parser) -> None:
    parser.option("--all", help="ended ones too")
    parser.limit(SESSIONS_LIMIT)


def sessions(cli: Cli) -> None:
    views = cli.board.sessions(ended=cli.args.all, limit=cli.args.limit)
    if cli.json:
        return cli.answer({"sessions": views})
    if not views:
        return cli.remark(
            "no sessions" + ("" if cli.args.all else " are going on; with ended ones: dibs sessions --all")
        )
    rows, styles = [], []
    for view in views:
        session = view.session
        state = f"ended {ago(session.ended_at)}" if session.ended_at is not None else f"seen {ago(session.seen_at)}"
        rows.append([session.agent, session.id, session.kind, str(view.claims), state, clean(session.host)])
        styles.append([agent_colour(session.agent), "dim" if session.ended_at is not None else ""])
    columns = terminal_columns(sys.stdout)
    header = ("agent", "session", "kind", "claims", "", "host")
    return cli.say(
        *table(rows, header=header, styles=styles, shrink=(5, 1), right=(3,), columns=columns, paint=cli.paint)
    )


def _limits(agent: Agent) -> list[str]:
    """How much the agent may hold and how fast, as far as anything is said."""
    found = []
    if agent.max_claims is not None:
        found.append(f"{agent.max_claims} a session")
    if agent.max_claims_total is not None:
        found.append(f"{agent.max_claims_total} in all")
    if agent.claims_per_minute is not None:
        burst = f" ({agent.claims_burst} at once)" if agent.claims_burst > 1 else ""
        found.append(f"{agent.claims_per_minute:g} a minute{burst}")
    return found


def _policy(agent: Agent) -> list[str]:
    """What the agent may do and what it may draft; nothing said means anything."""
    once_approved = [action for action in agent.allowed_actions if action in agent.sensitive_actions]
    may = [action for action in agent.allowed_actions if action not in once_approved]
    drafts = [action for action in agent.sensitive_actions if action not in once_approved]
    told = (("may", may), ("drafts", drafts), ("once approved:", once_approved))
    return [f"{what} {' '.join(actions)}" for what, actions in told if actions]
