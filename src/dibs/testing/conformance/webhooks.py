"""Webhooks: kept with their cursors; no answer has a secret, and no event is pruned that one has not passed."""

from __future__ import annotations

import os

from dibs.errors import Invalid
from dibs.model.webhooks import Attempt
from dibs.testing.conformance.asking import added, refused
from dibs.testing.conformance.used_board import DAY_SECONDS, finished, gone
from dibs.testing.harness import Harness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.board import Board
    from dibs.model.webhooks import Webhook

#: Private, and not allowed: a deliverer that finds the webhook sends nothing.
URL = "https://127.0.0.1/dibs"
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class TestWebhooks:
    def test_a_webhook_begins_at_the_end_of_the_feed(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        added(board, "before")
        newest = board.events(newest=True, limit=1)[-1].id
        made = board.add_webhook(URL, kinds=["claimable", "pending_approval"], projects=["web"], actor="ann")
        assert made.secret.startswith("whsec_")
        assert other.webhooks() == (made.webhook,)
        assert made.webhook.cursor == newest
        assert (made.webhook.created_by, made.webhook.projects) == ("ann", ("web",))

    def test_no_answer_has_a_secret(self, harness: Harness) -> None:
        board = harness.board()
        hook = board.add_webhook(URL, kinds=["done"], secret=SECRET).webhook
        added(board, "item")
        told = [hook, board.webhooks(), board.change_webhook(hook.id, secret=SECRET.replace("MfKQ", "AAAA"))]
        told += [board.dead_letters(hook.id), list(board.export()), board.remove_webhook(hook.id)]
        assert "MfKQ" not in str(told)
        assert "AAAA" not in str(told)

    def test_the_same_webhook_is_added_once(self, harness: Harness) -> None:
        board, other = harness.board(), harness.board()
        asked: dict[str, Any] = {"kinds": ["done"], "id": "mine", "secret": SECRET, "actor": "ann"}
        first = board.add_webhook(URL, **asked)
        added(board, "later")
        assert other.add_webhook(URL, **asked) == first
        assert len(board.webhooks()) == 1
        for change in ({"kinds": ["failed"]}, {"secret": SECRET.replace("M", "N")}, {"allow_private": True}):
            refused(Invalid, board.add_webhook, URL, **asked | change)
        refused(Invalid, board.add_webhook, URL + "2", **asked)
        assert board.webhooks() == (first.webhook,)

    def test_bad_input_changes_nothing(self, harness: Harness) -> None:
        board = harness.board()
        bad: list[dict[str, Any]] = [
            *({"url": url} for url in ("", "nonsense", "ftp://a.org/", "http://a.org/", "https:///x", "https://a b/")),
            *({"url": url} for url in ("https://me:secret@a.org/", "https://a.org/#x", "https://a.org/\r\nX: y")),
            *({"kinds": kinds} for kinds in ([], ["nonsense"], ["claimable", "claim"])),
            {"format": "xml"},
            {"secret": "short"},
            {"give_up_seconds": 0},
            {"projects": ["no name!"]},
        ]
        for wrong in bad:
            asked = {"url": URL, "kinds": ["done"], **wrong}
            error = refused(Invalid, board.add_webhook, asked.pop("url"), **asked)
            assert error.facts["field"] == next(iter(wrong)), wrong
        error = refused(Invalid, board.add_webhook, URL, kinds=["nonsense"])
        assert {"claimable", "expired", "pending_approval"} <= set(error.facts["kinds"])
        assert board.webhooks() == ()

    def test_an_unknown_webhook_is_refused(self, harness: Harness) -> None:
        board = harness.board()
        for verb in (board.remove_webhook, board.dead_letters):
            refused(Invalid, verb, "nobody")
        refused(Invalid, board.change_webhook, "nobody", enabled=True)
        hook = board.add_webhook(URL, kinds=["done"]).webhook
        refused(Invalid, board.change_webhook, hook.id)
        assert board.remove_webhook(hook.id).id == hook.id
        refused(Invalid, board.remove_webhook, hook.id)

    def test_a_message_is_sent_by_hand_and_its_failure_is_told(self, harness: Harness) -> None:
        board = harness.board()
        hook = board.add_webhook(URL, kinds=["done"]).webhook
        sent = board.send_webhook(hook.id)
        assert (sent.webhook, sent.event, sent.delivered) == (hook.id, None, False)
        assert "private address" in sent.answer
        assert board.webhooks() == (hook,), "a test is no attempt"
        assert refused(Invalid, board.send_webhook, hook.id, event=1).facts["field"] == "event"
        refused(Invalid, board.send_webhook, "nobody")

    def test_what_a_webhook_has_not_passed_is_not_pruned(self, harness: Harness) -> None:
        harness.clock.freeze()
        board = harness.board()
        finished(board, "passed")
        hook = board.add_webhook(URL, kinds=["done"]).webhook
        finished(board, "ahead")
        harness.clock.advance(DAY_SECONDS)
        assert board.prune(older_than_seconds=1).items == 1
        assert gone(board, "passed")
        assert not gone(board, "ahead")
        assert [event.item for event in board.events(after=hook.cursor)][-1] == "ahead"
        board.change_webhook(hook.id, enabled=False)
        assert board.prune(older_than_seconds=1).items == 1, "a disabled webhook keeps nothing"
        floor = board.prune(older_than_seconds=1).event_floor
        assert board.change_webhook(hook.id, enabled=True).cursor == floor
        assert board.events(after=floor) == ()

    def test_a_webhook_is_disabled_and_enabled(self, harness: Harness) -> None:
        board = harness.board()
        hook = board.add_webhook(URL, kinds=["done"]).webhook
        off = board.change_webhook(hook.id, enabled=False)
        assert (off.disabled_at is not None, off.disabled_reason) == (True, "paused by hand")
        assert board.change_webhook(hook.id, enabled=False) == off
        assert board.change_webhook(hook.id, enabled=True) == hook
        assert board.webhooks() == (hook,)

    def test_one_deliverer_has_the_lease_of_a_webhook(self, harness: Harness) -> None:
        harness.clock.freeze()
        board, other = harness.board(), harness.board()
        hook = board.add_webhook(URL, kinds=["done"], secret=SECRET).webhook
        if board.store.waits:
            refused(Invalid, board.store.take_webhook, hook.id, deliverer="one")
            refused(Invalid, board.store.advance_webhook, hook.id, deliverer="one", after=hook.cursor)
            return
        taken = board.store.take_webhook(hook.id, deliverer="one", seconds=60)
        assert taken is not None
        assert (taken.webhook, taken.secrets, taken.wait_seconds) == (hook, (SECRET,), 0)
        assert _wait_seconds(other, hook, "two") == 60
        assert _wait_seconds(other, hook, "one") == 0, "its own lease is extended"
        assert board.store.advance_webhook(hook.id, deliverer="one", after=hook.cursor, seconds=60) == hook
        harness.clock.advance(59)
        assert _wait_seconds(other, hook, "two") == 1
        assert board.store.advance_webhook(hook.id, deliverer="one", after=hook.cursor) == hook
        assert _wait_seconds(other, hook, "two") == 0, "the lease was given up"
        harness.clock.advance(60)
        assert _wait_seconds(board, hook, "one") == 0, "the lease has ended"
        board.change_webhook(hook.id, enabled=False)
        assert board.store.take_webhook(hook.id, deliverer="one", seconds=60) is None

    def test_a_deliverer_that_comes_too_late_changes_nothing(self, harness: Harness) -> None:
        harness.clock.freeze()
        board, other = harness.board(), harness.board()
        if board.store.waits:
            return
        hook = board.add_webhook(URL, kinds=["added"], give_up_seconds=1).webhook
        added(board, "item")
        first, last = (event for event in board.events(after=hook.cursor))
        assert _wait_seconds(board, hook, "late") == 0
        harness.clock.advance(60)
        assert _wait_seconds(other, hook, "new") == 0
        for attempt in (Attempt(event=first), Attempt(event=first, failure="500")):
            given: dict[str, Any] = {"after": hook.cursor, "cursor": last.id, "attempt": attempt}
            assert board.store.advance_webhook(hook.id, deliverer="late", **given) is None
        assert board.store.advance_webhook(hook.id, deliverer="new", after=hook.cursor + 1) is None, "another cursor"
        assert (board.webhooks(), board.dead_letters(hook.id)) == ((hook,), ())
        sent = other.store.advance_webhook(hook.id, deliverer="new", after=hook.cursor, attempt=Attempt(event=first))
        assert sent is not None
        assert (sent.cursor, board.webhooks()) == (first.id, (sent,))
        board.remove_webhook(hook.id)
        assert other.store.advance_webhook(hook.id, deliverer="new", after=first.id) is None

    def test_a_restored_board_sends_nothing_twice_and_skips_nothing(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "sent", "unsent")
        ahead = board.add_webhook(URL, kinds=["added"]).webhook
        added(board, "still-unsent")
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        last = board.events(newest=True, limit=1)[-1].id
        added(board, "undone")
        behind = board.add_webhook(URL, kinds=["added"]).webhook
        board.restore(path)
        cursors = {hook.id: hook.cursor for hook in board.webhooks()}
        assert cursors == {ahead.id: ahead.cursor, behind.id: last}
        items = [event.item for event in board.events(after=ahead.cursor) if event.kind != "restored"]
        assert set(items) == {"still-unsent"}

    def test_events_of_another_board_are_not_sent(self, harness: Harness) -> None:
        board = harness.board()
        added(board, "item", "other")
        path = os.path.join(harness.folder, "backup")
        board.backup(path)
        last = board.events(newest=True, limit=1)[-1].id
        with harness.elsewhere() as elsewhere:
            copy = elsewhere.board()
            copy.add_webhook(URL, kinds=["added"])
            copy.load(list(board.export()))
            assert [hook.cursor for hook in copy.webhooks()] == [last]
        with harness.elsewhere() as elsewhere:
            copy = elsewhere.board()
            copy.add_webhook(URL, kinds=["added"])
            copy.restore(path)
            assert [hook.cursor for hook in copy.webhooks()] == [last]
            assert {event.kind for event in copy.events(after=last)} == {"restored"}


def _wait_seconds(board: Board, webhook: Webhook, deliverer: str) -> float:
    taken = board.store.take_webhook(webhook.id, deliverer=deliverer, seconds=60)
    assert taken is not None
    return taken.wait_seconds
