"""The commands of whoever does the work: next, claim, progress, release, done, fail.

These run inside agents' loops and hooks, so this module imports nothing that a claim does not need. Each acts as
the caller's own session; how that is found is told in `identity`. Waiting for an item and soft claims, which few ask
for, stand in `waiting` and `soft`.
"""

from __future__ import annotations

from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.errors import ClaimExpired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from dibs.model import Ended, Grant

    Reply = TypeVar("Reply")

NOTHING = 3


def claim_options(parser: Parser) -> None:
    parser.item()
    parser.ttl()
    parser.duration("--wait", "wait_seconds", "if somebody has it, queue for it so long")
    parser.option("--soft", help="just say so: shown in who, excludes nobody")
    parser.request_id()
    parser.identity()


def claim(cli: Cli) -> None:
    asked = cli.args
    if asked.soft:
        from dibs.cli import soft

        return soft.claim(cli)
    if asked.wait:
        from dibs.cli import wait as waiting

        grant = waiting.in_turn(cli, lambda on_wait: _claim(cli, wait_seconds=asked.wait, on_wait=on_wait))
    else:
        grant = _claim(cli)
    if cli.json:
        return cli.answer(grant)
    from dibs.cli import claim_lines

    return cli.say(*claim_lines.grant(grant, cli.paint), *claim_lines.decision(cli.board, grant, cli.paint))


def next_options(parser: Parser) -> None:
    parser.option("--type", metavar="T", help="only this type; may be repeated", repeated=True)
    parser.option("--project", metavar="P", help="only this project; may be repeated", repeated=True)
    parser.number("-n", "--number", default=1, help="up to so many items (1)")
    parser.ttl()
    parser.duration("--wait", "wait_seconds", "if there is nothing, wait so long for something")
    parser.request_id()
    parser.identity()


def next(cli: Cli) -> int:
    asked = cli.args
    grants = identity.claiming(
        cli,
        lambda session: cli.board.next(
            session=session,
            agent=asked.agent,
            types=asked.type,
            projects=asked.project,
            n=asked.number,
            ttl_seconds=asked.ttl,
            wait_seconds=asked.wait or 0,
            request_id=asked.request_id,
        ),
    )
    if cli.json:
        cli.answer({"claims": grants})
    elif grants:
        from dibs.cli import claim_lines

        for grant in grants:
            cli.say(*claim_lines.grant(grant, cli.paint), *claim_lines.decision(cli.board, grant, cli.paint))
    else:
        cli.remark("nothing to claim " + ("came in that time" if asked.wait else "right now"))
    return 0 if grants else NOTHING


def progress_options(parser: Parser) -> None:
    parser.item()
    parser.word("note", "what there is to know so far")
    parser.option("--meta", metavar="JSON", help="figures for programs, as a JSON object")
    parser.token()
    parser.request_id()
    parser.identity()


def progress(cli: Cli) -> None:
    asked = cli.args
    meta, token = json_object(asked.meta, "meta"), identity.own_token(cli)
    renewal = as_holder(
        cli,
        lambda session, recover: cli.board.progress(
            asked.item,
            asked.note,
            session=session,
            token=token,
            meta=meta,
            recover=recover,
            request_id=asked.request_id,
        ),
        lambda renewal: renewal.token,
    )
    if cli.json:
        return cli.answer(renewal)
    from dibs.cli import claim_lines

    return cli.say(claim_lines.noted(renewal, cli.paint))


def release_options(parser: Parser) -> None:
    parser.item()
    parser.reason()
    parser.option("--keep-status", "--park", help="set it aside, where next does not take it up")
    parser.option("--soft", help="of a soft claim")
    parser.token()
    parser.request_id()
    parser.identity()


def release(cli: Cli) -> None:
    asked = cli.args
    if asked.soft:
        from dibs.cli import soft

        return soft.release(cli)
    token = identity.own_token(cli)
    ended = identity.holding(
        cli,
        lambda session: cli.board.release(
            asked.item,
            session=session,
            token=token,
            reason=asked.reason,
            park=asked.park,
            request_id=asked.request_id,
        ),
    )
    return tell_end(cli, ended)


def done_options(parser: Parser) -> None:
    parser.item()
    parser.option("--note", metavar="TEXT", help="what was done, for the history")
    parser.links_and_cost()
    parser.token()
    parser.request_id()
    parser.identity()


def done(cli: Cli) -> None:
    _end(cli, "done", note=cli.args.note)


def fail_options(parser: Parser) -> None:
    parser.item()
    parser.reason()
    parser.links_and_cost()
    parser.token()
    parser.request_id()
    parser.identity()


def fail(cli: Cli) -> None:
    _end(cli, "fail", reason=cli.args.reason)


def json_object(text: str | None, field: str) -> dict[str, Any] | None:
    """A JSON object as it was typed; whether it is a good one is the board's to say."""
    if text is None:
        return None
    import json

    from dibs.errors import Invalid

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{field} is no JSON: {error}", field=field) from error
    if not isinstance(found, dict):
        raise Invalid(f'{field} must be a JSON object, like {{"key": "value"}}', field=field)
    return found


def as_holder(cli: Cli, verb: Callable[[str, bool], Reply], token_of: Callable[[Reply], int]) -> Reply:
    """Call a verb of the holder, given the session and whether to recover first.

    A claim that expired while its holder was at work is claimed again if nobody took over, and that is said.
    """

    def call(session: str) -> Reply:
        try:
            return verb(session, False)
        except ClaimExpired as error:
            from dibs.rules.claiming import recoverable

            if not recoverable(error):
                # What an agent has to understand from this, whatever it was about to do.
                error.message += "; stop working on it"
                raise
        # The same request with the same words: asked again under its id, it is answered and not done again.
        reply = verb(session, True)
        identity.write_down(cli, token_of(reply))
        cli.remark(
            f"the claim of {cli.args.item} had expired; nobody had taken it over, "
            f"so it was claimed again under token {token_of(reply)}"
        )
        return reply

    return identity.holding(cli, call)


def tell_end(cli: Cli, ended: Ended) -> None:
    if cli.json:
        return cli.answer(ended)
    from dibs.cli import claim_lines

    return cli.say(claim_lines.end(ended, cli.paint))


def links_of(pairs: list[str]) -> dict[str, str]:
    """`NAME=URL`, as often as it was given."""
    links = {}
    for pair in pairs:
        name, equals, target = pair.partition("=")
        if not (name and equals and target):
            raise UsageError(f"--link {pair!r}: write it as NAME=URL", field="link")
        links[name] = target
    return links


def _claim(cli: Cli, **waiting: Any) -> Grant:
    asked = cli.args
    return identity.claiming(
        cli,
        lambda session: cli.board.claim(
            asked.item,
            session=session,
            agent=asked.agent,
            ttl_seconds=asked.ttl,
            request_id=asked.request_id,
            **waiting,
        ),
    )


def _end(cli: Cli, verb: str, **words: Any) -> None:
    asked = cli.args
    token = identity.own_token(cli)
    links, cost = links_of(asked.link), json_object(asked.cost, "cost")
    end = cli.board.done if verb == "done" else cli.board.fail
    ended = as_holder(
        cli,
        lambda session, recover: end(
            asked.item,
            session=session,
            token=token,
            links=links,
            cost=cost,
            recover=recover,
            request_id=asked.request_id,
            **words,
        ),
        lambda ended: ended.run.token,
    )
    tell_end(cli, ended)
