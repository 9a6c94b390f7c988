"""The commands of the holder of a claim: next, claim, hand, heartbeat, progress, release, done, fail.

They run inside agents' loops and hooks, so this module imports nothing that a claim does not need. Each command acts as
the caller's own session, which `identity` finds.
"""

from __future__ import annotations

from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError, given_fields
from dibs.errors import ClaimExpired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from dibs.model import Ended, Grant, Heartbeat, Renewal

    Reply = TypeVar("Reply")

#: The exit code when there is nothing to claim.
NOTHING = 3


def claim_options(parser: Parser) -> None:
    parser.argument("item", "the id of the item (or give --subject)", optional=True)
    parser.ttl()
    parser.duration("--wait", "wait_seconds", "if the item is taken, queue for it this long")
    parser.option("--soft", help="announce the work without excluding others")
    parser.quiet()
    parser.request_id()
    parser.identity()
    parser.option("--title", metavar="TEXT", help="with --subject: the title, if the item is added")
    parser.item_fields()


def claim(cli: Cli) -> None:
    args = cli.args
    verb: Callable[..., Grant] = cli.board.claim
    what, fields = args.item, {}
    if args.subject is not None or args.item is None:
        from dibs.cli.items import subject_fields

        fields = subject_fields(cli)
        verb, what = cli.board.claim_subject, args.subject
    elif args.title or any(given_fields(args).values()):
        raise UsageError("the fields of an item are for one that --subject adds; give --subject KEY", field="subject")
    elif args.soft:
        return _soft_claim(cli)

    def call(**waiting: Any) -> Grant:
        return identity.with_session(
            cli,
            lambda session: verb(
                what,
                session=session,
                agent=args.agent,
                ttl_seconds=args.ttl,
                request_id=args.request_id,
                **fields,
                **waiting,
            ),
        )

    if args.wait:
        from dibs.cli import wait

        grant = wait.showing_position(cli, lambda on_wait: call(wait_seconds=args.wait, on_wait=on_wait))
    else:
        grant = call()
    if args.item is None and (before := grant.claim.token - 1):
        identity.knows_end(cli, grant.item.id, before)  # that of a command which names the item is known without this
    return _print_grants(cli, (grant,), grant)


def hand_options(parser: Parser) -> None:
    parser.item()
    parser.option("--to", metavar="SESSION", help="the session that works on it from now on", required=True)
    parser.reason()
    parser.ttl()
    parser.holder()


def hand(cli: Cli) -> None:
    args, token = cli.args, identity.claim_token(cli)

    def hand(session: str) -> Grant:
        return cli.board.hand(
            args.item,
            to=args.to,
            session=session,
            token=token,
            reason=args.reason,
            ttl_seconds=args.ttl,
            request_id=args.request_id,
        )

    grant = identity.with_known_session(cli, hand)
    identity.knows_end(cli, args.item, grant.claim.token - 1)
    if args.brief:
        from dibs.text import brief

        return cli.print_json(brief.handed(grant))
    if cli.json:
        return cli.print_json(grant)
    from dibs.cli import claim_lines

    return cli.print(claim_lines.handed(grant, cli.paint))


def next_options(parser: Parser) -> None:
    parser.types_and_projects()
    parser.labels()
    parser.number("-n", "--number", default=1, help="claim up to N items (default: 1)")
    parser.ttl()
    parser.duration("--wait", "wait_seconds", "if nothing is ready, wait this long")
    parser.option("--dry-run", help="show what would be claimed, and claim nothing")
    parser.quiet()
    parser.request_id()
    parser.identity()


def next(cli: Cli) -> int:
    args = cli.args
    if args.dry_run:
        from dibs.cli import next_preview

        return next_preview.show(cli)
    grants = identity.with_session(
        cli,
        lambda session: cli.board.next(
            session=session,
            agent=args.agent,
            types=args.type,
            projects=args.project,
            n=args.number,
            ttl_seconds=args.ttl,
            wait_seconds=args.wait or 0,
            request_id=args.request_id,
            **({"labels": args.label} if args.label else {}),
        ),
    )
    if cli.json or grants:
        _print_grants(cli, grants, {"claims": grants})
    else:
        cli.notice("nothing became claimable in time" if args.wait else "nothing to claim right now")
    return 0 if grants else NOTHING


def heartbeat_options(parser: Parser) -> None:
    parser.argument("item", "the id of the item (default: all the session holds)", optional=True)
    parser.token()
    parser.ttl()
    parser.duration("--at-most-every", "at_most_every_seconds", "skip claims renewed less than this time ago")
    parser.option("--holding", metavar="A,B=N", help="all items held; release every other claim")
    parser.json_object("--meta", "change data shown of the session; null removes a name")
    parser.identity()


def heartbeat(cli: Cli) -> int:
    """Renew one claim, or every claim of the session; exit 4 if any of them is lost."""
    args = cli.args
    if args.item is None:
        return _heartbeat_of_all(cli)
    if args.holding is not None:
        raise UsageError("--holding is about all claims of the session; leave out the item", field="holding")
    if args.meta is not None:
        raise UsageError("--meta is about the session; leave out the item", field="meta")
    token = identity.claim_token(cli)

    def renew(session: str) -> Renewal:
        every = args.at_most_every
        return cli.board.renew(
            args.item, session=session, token=token, ttl_seconds=args.ttl, at_most_every_seconds=every
        )

    renewal = identity.with_known_session(cli, renew)
    if cli.json:
        cli.print_json(renewal)
    else:
        from dibs.cli import claim_lines

        cli.print(claim_lines.renewal(renewal, cli.paint))
    return 0


def _heartbeat_of_all(cli: Cli) -> int:
    args = cli.args
    if args.token is not None or args.ttl is not None:
        raise UsageError("--token and --ttl need an item: dibs heartbeat ITEM", field="item")
    holding = None if args.holding is None else _parse_holding(args.holding)
    beat = identity.with_known_session(cli, lambda session: _renew_all(cli, session, holding))
    if cli.json:
        cli.print_json(beat)
    else:
        from dibs.cli import claim_lines

        cli.print(*claim_lines.heartbeat(beat, cli.paint))
    return ClaimExpired.exit_code if beat.lost else 0


def _renew_all(cli: Cli, session: str, holding: dict[str, int | None] | None) -> Heartbeat:
    every: float | None = cli.args.at_most_every
    first = cli.board.heartbeat(session=session, at_most_every_seconds=every, meta=cli.args.meta)
    if holding is None:
        return first
    # `known_event` protects claims given to the session after this point, which the caller's list cannot contain.
    beat = cli.board.heartbeat(session=session, holding=holding, known_event=first.event, at_most_every_seconds=every)
    renewed = {(one.item, one.token) for one in first.renewed if one.renewed}
    return beat.replace(
        renewed=tuple(one.replace(renewed=one.renewed or (one.item, one.token) in renewed) for one in beat.renewed)
    )


def _parse_holding(text: str) -> dict[str, int | None]:
    """Parse `a,b=3` into items and the tokens that the caller believes they are held under."""
    held: dict[str, int | None] = {}
    for part in filter(None, text.split(",")):
        item, equals, token = part.strip().partition("=")
        if equals and not (token.isascii() and token.isdigit()):
            raise UsageError(f"--holding {part!r}: the token is a whole number, as in {item}=3", field="holding")
        held[item] = int(token) if equals else None
    return held


def progress_options(parser: Parser) -> None:
    parser.item()
    parser.argument("note", "the note, for watchers and the next holder")
    parser.json_object("--meta", "data for programs, a JSON object")
    parser.holder()


def progress(cli: Cli) -> None:
    args, token = cli.args, identity.claim_token(cli)

    def note(session: str, recover: bool) -> Renewal:
        return cli.board.progress(
            args.item,
            args.note,
            session=session,
            token=token,
            meta=args.meta,
            recover=recover,
            request_id=args.request_id,
        )

    renewal = with_recovery(cli, note, lambda renewal: renewal.token)
    if cli.json:
        return cli.print_json(renewal)
    from dibs.cli import claim_lines

    return cli.print(claim_lines.noted(renewal, cli.paint))


def release_options(parser: Parser) -> None:
    parser.item()
    parser.reason()
    parser.option("--keep-status", "--park", help="park the item, so that next skips it")
    parser.option("--soft", help="release a soft claim")
    parser.holder()


def release(cli: Cli) -> None:
    args = cli.args
    if args.soft:
        return _soft_release(cli)
    token = identity.claim_token(cli)

    def release(session: str) -> Ended:
        return cli.board.release(
            args.item, session=session, token=token, reason=args.reason, park=args.park, request_id=args.request_id
        )

    return print_end(cli, identity.with_known_session(cli, release))


def done_options(parser: Parser) -> None:
    parser.item()
    parser.option("--note", metavar="TEXT", help="the result, for the history")
    parser.links_and_cost()
    parser.holder()


def done(cli: Cli) -> None:
    end_run(cli, cli.board.done, note=cli.args.note)


def fail_options(parser: Parser) -> None:
    parser.item()
    parser.reason()
    parser.links_and_cost()
    parser.holder()


def fail(cli: Cli) -> None:
    end_run(cli, cli.board.fail, reason=cli.args.reason)


def end_run(cli: Cli, verb: Callable[..., Ended], **fields: Any) -> None:
    """Call the verb that ends the caller's run, with the links and the cost from the arguments."""
    args, token = cli.args, identity.claim_token(cli)
    fields |= {"links": dict(args.link), "cost": args.cost, "request_id": args.request_id}

    def end(session: str, recover: bool) -> Ended:
        return verb(args.item, session=session, token=token, recover=recover, **fields)

    print_end(cli, with_recovery(cli, end, lambda ended: ended.run.token))


def print_end(cli: Cli, ended: Ended) -> None:
    if cli.json:
        return cli.print_json(ended)
    from dibs.cli import claim_lines

    return cli.print(claim_lines.end(ended, cli.paint))


def with_recovery(cli: Cli, verb: Callable[[str, bool], Reply], token_of: Callable[[Reply], int]) -> Reply:
    """Call a verb of the holder with its session; if the claim has expired and no one else has claimed the item since,
    call it again with `recover`, and print a notice."""

    def call(session: str) -> Reply:
        try:
            return verb(session, False)
        except ClaimExpired as error:
            from dibs.rules.claiming import recoverable

            if not recoverable(error):
                # Agents read this message, so it must say what to do.
                error.message += "; stop working on it"
                raise
        # The same request id as before: if the first call did succeed, this returns its answer.
        reply = verb(session, True)
        identity.record_token(cli, token_of(reply))
        cli.notice(
            f"the claim of {cli.args.item} had expired; no one else had claimed it, "
            f"so it was recovered under token {token_of(reply)}"
        )
        return reply

    return identity.with_known_session(cli, call)


def _print_grants(cli: Cli, grants: tuple[Grant, ...], answer: object) -> None:
    """The claims: only the ids with `--quiet`, the answer with `--json`, else lines for people."""
    if cli.args.quiet:
        return cli.print(*(grant.item.id for grant in grants))
    if cli.json:
        return cli.print_json(answer)
    from dibs.cli import claim_lines

    for grant in grants:
        cli.print(*claim_lines.grant(grant, cli.paint), *claim_lines.decision(cli.board, grant, cli.paint))
    return None


def _soft_claim(cli: Cli) -> None:
    """Announce the work: `who` shows a soft claim, heartbeats renew it, and it excludes no one."""
    args = cli.args
    for given, name in ((args.wait, "--wait"), (args.request_id, "--request-id")):
        if given:
            raise UsageError(f"a soft claim never waits and is never refused; leave out {name}", field="soft")
    soft = identity.with_session(
        cli, lambda session: cli.board.soft_claim(args.item, session=session, ttl_seconds=args.ttl)
    )
    if cli.json:
        return cli.print_json({"soft_claim": soft})
    from dibs.cli.render import clock
    from dibs.text import times

    until = f"for {times.span(soft.ttl_seconds)} until {clock(soft.expires_at)}"
    return cli.print(
        f"{cli.paint('soft claim', 'green')} {cli.paint(soft.item, 'bold')}  {cli.paint(until, 'dim')}",
        cli.paint("  shown in dibs who; it does not exclude others", "dim"),
    )


def _soft_release(cli: Cli) -> None:
    args = cli.args
    if args.park or args.reason or args.token is not None:
        raise UsageError("a soft claim has no token and no history; leave out the other options", field="soft")
    soft = identity.with_known_session(
        cli, lambda session: cli.board.soft_release(args.item, session=session, request_id=args.request_id)
    )
    cli.reply({"soft_claim": soft}, f"{cli.paint('released', 'yellow')} {cli.paint(soft.item, 'bold')}  soft claim")
