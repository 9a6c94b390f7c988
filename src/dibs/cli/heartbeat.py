"""`dibs heartbeat`: renew one claim, or everything the session holds. Exit 4 if any of it is lost."""

from __future__ import annotations

from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.errors import ClaimExpired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Heartbeat


def heartbeat_options(parser: Parser) -> None:
    parser.item(optional=True)
    parser.token()
    parser.ttl()
    parser.duration("--at-most-every", "at_most_every_seconds", "leave alone what was renewed less than that ago")
    parser.option("--holding", metavar="A,B=N", help="all that is held; anything else is let go")
    parser.identity()


def heartbeat(cli: Cli) -> int:
    asked = cli.args
    if asked.item is None:
        return _heartbeat_of_all(cli)
    if asked.holding is not None:
        raise UsageError("--holding is for a heartbeat of everything; leave the item out", field="holding")
    token = identity.own_token(cli)
    renewal = identity.holding(
        cli,
        lambda session: cli.board.renew(
            asked.item,
            session=session,
            token=token,
            ttl_seconds=asked.ttl,
            at_most_every_seconds=asked.at_most_every,
        ),
    )
    if cli.json:
        cli.answer(renewal)
    else:
        from dibs.cli import telling

        cli.say(telling.renewal(renewal, cli.paint))
    return 0


def _heartbeat_of_all(cli: Cli) -> int:
    asked = cli.args
    if asked.token is not None or asked.ttl is not None:
        raise UsageError("--token and --ttl need an item; a heartbeat of everything takes neither", field="item")
    holding = None if asked.holding is None else _holding(asked.holding)
    beat: Heartbeat = identity.holding(cli, lambda session: _beat(cli, session, holding))
    if cli.json:
        cli.answer(beat)
    else:
        from dibs.cli import telling

        cli.say(*telling.heartbeat(beat, cli.paint))
    return ClaimExpired.exit_code if beat.lost else 0


def _beat(cli: Cli, session: str, holding: dict[str, int | None] | None) -> Heartbeat:
    every: float | None = cli.args.at_most_every
    if holding is None:
        return cli.board.heartbeat(session=session, at_most_every_seconds=every)
    # What is given to the session from here on was not known to whoever wrote down what it holds.
    known = cli.board.heartbeat(session=session, at_most_every_seconds=every)
    beat = cli.board.heartbeat(session=session, holding=holding, known_event=known.event, at_most_every_seconds=every)
    renewed = {(one.item, one.token) for one in known.renewed if one.renewed}
    return beat.replace(
        renewed=tuple(one.replace(renewed=one.renewed or (one.item, one.token) in renewed) for one in beat.renewed)
    )


def _holding(text: str) -> dict[str, int | None]:
    """`a,b=3` as items and the tokens believed to be theirs."""
    held: dict[str, int | None] = {}
    for part in filter(None, text.split(",")):
        item, equals, token = part.strip().partition("=")
        if equals and not (token.isascii() and token.isdigit()):
            raise UsageError(f"--holding {part!r}: the token is a whole number, as in {item}=3", field="holding")
        held[item] = int(token) if equals else None
    return held
