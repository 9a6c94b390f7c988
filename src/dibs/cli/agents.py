"""Agents and their sessions."""

from __future__ import annotations

from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.render import agent_colour, ago, clean, replaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.model import Agent, SessionView

SESSIONS_LIMIT = 1000


def agent_set_options(parser: Parser) -> None:
    parser.argument("name", "the name of the agent")
    parser.option("--type", metavar="T", help="a type it takes (default: every type); repeatable", repeated=True)
    parser.option("--role", metavar="ROLE", help="its role")
    parser.number("--max-claims", help="the most items that one session may hold")
    parser.number("--max-claims-total", help="the most items that all its sessions may hold")
    parser.rate("--claims-per-minute", help="the most claims in a minute")
    parser.number("--burst", help="the most claims at once (default: 1)")
    parser.option("--allow", metavar="ACTION", help="an action it may do; repeatable", repeated=True)
    parser.option(
        "--sensitive", metavar="ACTION", help="an action that needs approval of its draft; repeatable", repeated=True
    )
    parser.option("--reset", help="reset all other fields to their defaults first")


def agent_set(cli: Cli) -> None:
    """Create the agent, or change the named fields and keep all others, above all its policy."""
    args = cli.args
    fields = {
        "types": args.type,
        "role": args.role,
        "max_claims": args.max_claims,
        "max_claims_total": args.max_claims_total,
        "claims_per_minute": args.claims_per_minute,
        "claims_burst": args.burst,
        "allowed_actions": args.allow,
        "sensitive_actions": args.sensitive,
    }
    known = next((agent for agent in cli.board.agents() if agent.name == args.name), None)
    before = {} if known is None or args.reset else {field: getattr(known, field) for field in fields}
    given = {field: value for field, value in fields.items() if value not in (None, [])}
    agent = cli.board.set_agent(args.name, **before | given)
    limits, policy = ", ".join(_limits(agent)), ", ".join(_policy(agent))
    words = [f"takes {', '.join(agent.types) or 'every type'}", f"at most {limits}" if limits else "", policy]
    words.append(f"role {agent.role}" if agent.role else "")
    changes = [] if known is None else _changes(known, agent, fields)
    cli.reply({"agent": agent}, f"{cli.paint.agent(agent.name)} {clean('; '.join(filter(None, words)))}", *changes)


def _changes(before: Agent, after: Agent, fields: Iterable[str]) -> list[str]:
    """The lists that were replaced, which the agent itself no longer shows; or that nothing has changed."""
    changed = [field for field in fields if getattr(before, field) != getattr(after, field)]
    if not changed:
        return ["  unchanged"]
    lists = [field for field in changed if isinstance(getattr(before, field), tuple) and getattr(before, field)]
    return [f"  {replaced(field.replace('_', ' '), getattr(before, field), getattr(after, field))}" for field in lists]


def agent_list(cli: Cli) -> None:
    agents = cli.board.agents()
    if cli.json:
        return cli.print_json({"agents": agents})
    if not agents:
        return cli.notice("no agents yet; a first session creates its agent, and so does: dibs agent set NAME")
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
    header = ("agent", "takes", "claims", "actions", "role")
    return cli.print(*cli.table(rows, header=header, styles=styles, shrink=(1, 3, 2, 0)))


def _limits(agent: Agent) -> list[str]:
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
    """The actions that the agent may do, may draft, and may do once approved; without a policy, nothing."""
    once_approved = [action for action in agent.allowed_actions if action in agent.sensitive_actions]
    may = [action for action in agent.allowed_actions if action not in once_approved]
    drafts = [action for action in agent.sensitive_actions if action not in once_approved]
    rules = (("may", may), ("drafts", drafts), ("once approved:", once_approved))
    return [f"{rule} {' '.join(actions)}" for rule, actions in rules if actions]


def session_start_options(parser: Parser) -> None:
    parser.option("--agent", metavar="NAME", help="the session's agent (default: DIBS_AGENT, or you)")
    parser.option("--id", metavar="ID", help="the id (default: generated)")
    parser.option("--kind", metavar="KIND", help="cli, autonomous, ...; claims of a person last longer")
    parser.option("--parent", metavar="ID", help="a parent session, with which this one ends")
    parser.number("--owner-pid", metavar="PID", help="the process whose death ends the session's claims")
    parser.json_object("--meta", "data to show, a JSON object")


def session_start(cli: Cli) -> None:
    """Start a session. Prints its id and nothing else, so that a shell can store it."""
    args, agent = cli.args, identity.agent_or_user(cli)
    if agent is None:
        raise UsageError(f"name the agent: {identity.START_LINE % 'NAME'}", field="agent")
    from dibs.model import PERSON

    kind = args.kind or (PERSON if identity.caller(cli).person else "cli")
    session = cli.board.start_session(
        agent, id=args.id, kind=kind, owner_pid=args.owner_pid, meta=args.meta, parent=args.parent
    )
    if args.kind and session.kind != args.kind:
        cli.notice(f"session {session.id} is live already and keeps its kind {session.kind}")
    cli.reply({"session": session}, session.id)


def session_end_options(parser: Parser) -> None:
    parser.argument("id", "the session (default: your own)", optional=True)
    parser.reason()
    parser.request_id()
    parser.identity()


def session_end(cli: Cli) -> None:
    args = cli.args
    ended = cli.board.end_session(
        args.id or identity.require_session(cli), reason=args.reason, request_id=args.request_id
    )
    released = f"released {', '.join(ended.released)}" if ended.released else "it held no claims"
    cli.reply(ended, f"{cli.paint('ended', 'green')} {cli.paint(ended.session.id, 'bold')}  {released}")


def sessions_options(parser: Parser) -> None:
    parser.option("--all", help="include ended sessions")
    parser.limit(SESSIONS_LIMIT)


def sessions(cli: Cli) -> None:
    views = cli.board.sessions(ended=cli.args.all, limit=cli.args.limit)
    if cli.json:
        return cli.print_json({"sessions": views})
    if not views:
        return cli.notice("no sessions" if cli.args.all else "no live sessions; for ended ones: dibs sessions --all")
    rows, styles = [], []
    for depth, view in _below_their_parents(views):
        session = view.session
        state = f"ended {ago(session.ended_at)}" if session.ended_at is not None else f"seen {ago(session.seen_at)}"
        id, meta = "  " * depth + session.id, "  ".join(f"{name}={value}" for name, value in session.meta.items())
        rows.append([session.agent, id, session.kind, str(view.claims), state, clean(session.host), meta])
        styles.append([agent_colour(session.agent), "dim" if session.ended_at is not None else ""])
    header = ("agent", "session", "kind", "claims", "", "host", "meta" if any(row[-1] for row in rows) else "")
    return cli.print(*cli.table(rows, header=header, styles=styles, shrink=(6, 5, 1), right=(3,)))


def _below_their_parents(views: tuple[SessionView, ...]) -> list[tuple[int, SessionView]]:
    """The sessions in their order, but children below their parents, each with its depth."""
    children: dict[str | None, list[SessionView]] = {}
    shown = {view.session.id for view in views}
    for view in views:
        parent = view.session.parent
        children.setdefault(parent if parent in shown else None, []).append(view)
    ordered: list[tuple[int, SessionView]] = []
    ahead = [(0, view) for view in reversed(children.get(None, []))]
    while ahead:
        depth, view = ahead.pop()
        ordered.append((depth, view))
        ahead += [(depth + 1, child) for child in reversed(children.get(view.session.id, []))]
    # An import may hold ended sessions that are each other's parents.
    reached = {view.session.id for _, view in ordered}
    return ordered + [(0, view) for view in views if view.session.id not in reached]
