"""Webhooks: webhook add, list, remove, rotate, pause, resume, test, dead, retry; and deliver."""

from __future__ import annotations

import sys

from dibs.board import open_board
from dibs.cli.context import Cli
from dibs.cli.parser import Parser
from dibs.cli.render import ago, clock
from dibs.errors import Invalid, StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.model import Event
    from dibs.model.webhooks import Delivery, Webhook
    from dibs.webhooks.sending import Outcome

ONCE = "  shown only once; the receiver verifies messages with it"


def webhook_add_options(parser: Parser) -> None:
    parser.argument("url", "where to send messages: https://...")
    parser.option("--kind", metavar="KIND", help="claimable,expired,pending_approval,...; repeatable", repeated=True)
    parser.option("--project", metavar="PROJECT", help="only items of this project; repeatable", repeated=True)
    parser.option("--format", metavar="FORMAT", help="json or slack (default: json)")
    parser.option("--allow-private", help="allow http and private addresses")
    parser.duration("--give-up", "give_up", "how long a message is tried (default: 24h)")


def webhook_add(cli: Cli) -> None:
    """Add a webhook and show its secret, once."""
    args = cli.args
    made = cli.board.add_webhook(
        args.url,
        kinds=[kind.replace("-", "_") for kind in _split(args.kind)],
        projects=_split(args.project),
        format=args.format or "json",
        allow_private=args.allow_private,
        give_up_seconds=args.give_up,
    )
    cli.reply(
        made,
        f"{cli.paint('added webhook', 'green')} {made.webhook.id}  {', '.join(made.webhook.kinds)}",
        f"  {made.secret}",
        cli.paint(ONCE, "dim"),
    )


def webhook_list(cli: Cli) -> None:
    found = cli.board.webhooks()
    if cli.json:
        return cli.print_json({"webhooks": found})
    if not found:
        return cli.notice("no webhooks; add one with: dibs webhook add URL --kind claimable")
    rows = [[one.id, _state(one), ",".join(one.kinds), ",".join(one.projects), one.url] for one in found]
    styles = [["bold", "red" if one.failure or one.disabled_at else "green"] for one in found]
    return cli.print(*cli.table(rows, header=("webhook", "", "kinds", "projects", "url"), styles=styles, shrink=(1, 4)))


def webhook_remove_options(parser: Parser) -> None:
    _id(parser)


def webhook_remove(cli: Cli) -> None:
    removed = cli.board.remove_webhook(cli.args.id)
    cli.reply({"webhook": removed}, f"{cli.paint('removed', 'green')} {removed.id}")


def webhook_rotate_options(parser: Parser) -> None:
    _id(parser)


def webhook_rotate(cli: Cli) -> None:
    """Make a new secret and show it, once. Messages have signatures by both secrets for a day."""
    from dibs.board.webhooks import new_secret

    secret = new_secret()
    changed = cli.board.change_webhook(cli.args.id, secret=secret)
    cli.reply(
        {"webhook": changed, "secret": secret},
        f"{cli.paint('new secret of', 'green')} {changed.id}; the one before signs for another day",
        f"  {secret}",
        cli.paint(ONCE, "dim"),
    )


def webhook_resume_options(parser: Parser) -> None:
    _id(parser)


def webhook_resume(cli: Cli) -> None:
    changed = cli.board.change_webhook(cli.args.id, enabled=True)
    cli.reply({"webhook": changed}, f"{cli.paint('resumed', 'green')} {changed.id}, after event {changed.cursor}")


def webhook_pause_options(parser: Parser) -> None:
    _id(parser)


def webhook_pause(cli: Cli) -> None:
    changed = cli.board.change_webhook(cli.args.id, enabled=False)
    cli.reply({"webhook": changed}, f"{cli.paint('paused', 'green')} {changed.id}, after event {changed.cursor}")


def webhook_test_options(parser: Parser) -> None:
    _id(parser)


def webhook_test(cli: Cli) -> int:
    return _show_sent(cli, [cli.board.send_webhook(cli.args.id)])


def webhook_dead_options(parser: Parser) -> None:
    _id(parser)


def webhook_dead(cli: Cli) -> None:
    letters = cli.board.dead_letters(cli.args.id)
    if cli.json:
        return cli.print_json({"dead_letters": letters})
    if not letters:
        return cli.notice("no dead letters")
    rows = [
        [str(one.event.id), one.event.kind, one.event.item, clock(one.event.at), f"{one.attempts} tries", one.failure]
        for one in letters
    ]
    return cli.print(*cli.table(rows, header=("event", "kind", "item", "at", "", "failure"), shrink=(5,), keep=(2,)))


def webhook_retry_options(parser: Parser) -> None:
    _id(parser)
    parser.number("--event", help="only this dead letter (default: all, oldest first)")


def webhook_retry(cli: Cli) -> int:
    """Send dead letters again, up to the first that fails. Those that the receiver accepts are no longer dead."""
    args, sent = cli.args, []
    events = [letter.event.id for letter in cli.board.dead_letters(args.id)] if args.event is None else [args.event]
    for event in events:
        sent.append(cli.board.send_webhook(args.id, event=event))
        if not sent[-1].delivered:
            break
    if not events and not cli.json:
        cli.notice("no dead letters, so nothing is sent again")
    return _show_sent(cli, sent)


def deliver_options(parser: Parser) -> None:
    parser.option("--once", help="deliver what there is now, and end")


def deliver(cli: Cli) -> int:
    """Deliver the board's events to its webhooks, if no server does."""
    from dibs.webhooks.deliverer import Deliverer

    # Not the board of the command, which is for one verb in one thread.
    with open_board(cli.place) as board:
        if board.store.waits:
            raise Invalid("the server of this board delivers; run dibs deliver where the board is", field="store")
        deliverer = Deliverer(board, report=lambda *attempt: _report(cli, *attempt))
        if cli.args.once:
            board.sweep()
            return 0 if deliverer.run_once() else StoreUnavailable.exit_code
        watch = board.watch(sweeps=True)
        try:
            deliverer.run(watch)
        finally:
            deliverer.stop()
            watch.close()
    return 0


def _report(cli: Cli, webhook: Webhook, event: Event, outcome: Outcome) -> None:
    word, colour = ("sent", "green") if outcome.failure is None else ("failed", "red")
    what = f"{event.id} {event.kind} {event.item} to {webhook.id}"
    told = {"webhook": webhook.id, "event": event.id, "item": event.item, "kind": event.kind, word: outcome.answer}
    cli.reply(told, f"{cli.paint(word, colour)} {what}: {outcome.answer}")
    sys.stdout.flush()


def _id(parser: Parser) -> None:
    parser.argument("id", "the id of the webhook, as dibs webhook list shows it")


def _split(given: list[str]) -> list[str]:
    return [word for text in given for word in text.split(",") if word]


def _show_sent(cli: Cli, sent: list[Delivery]) -> int:
    lines = [
        f"{cli.paint('delivered', 'green') if one.delivered else cli.paint('failed', 'red')}"
        f"{'' if one.event is None else f' {one.event}'}: {one.answer}"
        for one in sent
    ]
    cli.reply({"deliveries": sent}, *lines)
    return 0 if all(one.delivered for one in sent) else StoreUnavailable.exit_code


def _state(webhook: Webhook) -> str:
    dead = f", {webhook.dead} dead" if webhook.dead else ""
    if webhook.disabled_at is not None:
        return f"disabled: {webhook.disabled_reason}{dead}"
    if webhook.failing_at is not None:
        return f"failing since {ago(webhook.failing_at)}: {webhook.failure}{dead}"
    return ("never sent" if webhook.delivered_at is None else f"sent {ago(webhook.delivered_at)}") + dead
