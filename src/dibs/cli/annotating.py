"""`dibs annotate`: add to a run that has ended what was learned of it since: links, checks, costs.

A session annotates the runs of its own agent, and so does an agent that is named without a session. With `--actor`, or
without either, the annotation is recorded under the caller's name, as whoever tends the board.
"""

from __future__ import annotations

from dibs.cli import identity
from dibs.cli.context import Cli
from dibs.cli.parser import Parser, UsageError
from dibs.cli.work import json_object, links_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Ended


def annotate_options(parser: Parser) -> None:
    parser.item()
    parser.number("--run", help="the token of the run (else the latest)")
    parser.links_and_cost()
    parser.option("--check", metavar="NAME=STATE[:URL]", help="a check of its work; may be repeated", repeated=True)
    parser.request_id()
    parser.identity()
    parser.option("--actor", metavar="NAME", help="who tends the board (else the session, else you)")


def annotate(cli: Cli) -> None:
    asked, who = cli.args, identity.caller(cli)
    links, checks, cost = links_of(asked.link), _checks_of(asked.check), json_object(asked.cost, "cost")

    def annotate(session: str | None) -> Ended:
        return cli.board.annotate(
            asked.item,
            token=asked.run,
            links=links,
            checks=checks,
            cost=cost,
            session=session,
            agent=None if asked.actor is not None else who.agent,
            request_id=asked.request_id,
        )

    is_session = asked.actor is None and who.session is not None and not who.by_terminal
    annotated = identity.holding(cli, annotate) if is_session else annotate(None)
    if cli.json:
        return cli.answer(annotated)
    run, paint = annotated.run, cli.paint
    return cli.say(f"{paint('annotated', 'green')} {paint(run.item, 'bold')}  {paint(f'token {run.token}', 'dim')}")


def _checks_of(pairs: list[str]) -> dict[str, dict[str, str]]:
    """`NAME=STATE` or `NAME=STATE:URL`, as often as it was given."""
    checks = {}
    for pair in pairs:
        name, _, told = pair.partition("=")
        state, _, url = told.partition(":")
        if not (name and state):
            raise UsageError(f"--check {pair!r}: write it as NAME=STATE or NAME=STATE:URL", field="check")
        checks[name] = {"state": state} | ({"url": url} if url else {})
    return checks
