"""Delivery to real receivers: nothing is lost, each item's events arrive in order, and failures are told."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dibs.board import Board
from dibs.errors import Invalid
from dibs.model.webhooks import Webhook
from dibs.webhooks import deliverer, sending
from dibs.webhooks.deliverer import Deliverer
from tests.webhooks.receiver import Receiver, receiving

if TYPE_CHECKING:
    from dibs.testing.clock import Clock

KILLED_AT = [
    (when, point, number)
    for when in ("before", "after")
    for point, number in (("take_webhook", 1), ("post", 1), ("post", 2), ("advance_webhook", 1), ("advance_webhook", 2))
]


def hook(board: Board, receiver: Receiver, *kinds: str, **more: object) -> Webhook:
    added = board.add_webhook(receiver.url, kinds=kinds or ["claimable"], allow_private=True, **more)  # type: ignore[arg-type]
    return added.webhook


def now(board: Board) -> Webhook:
    return board.webhooks()[0]


def deliver(board: Board) -> bool:
    return Deliverer(board).run_once()


def test_a_message_is_signed_by_the_specification_and_has_event_and_item(board: Board, receiver: Receiver) -> None:
    made = board.add_webhook(receiver.url, kinds=["claimable"], allow_private=True)
    board.add("Fix the login", id="fix-login", project="web")
    assert deliver(board)
    (message,) = receiver.messages
    assert message.is_signed_with(made.secret)
    assert not message.is_signed_with("whsec_" + "A" * 32)
    assert message.data["type"] == message.event["kind"] == "claimable"
    assert message.data["data"]["item"]["title"] == "Fix the login"
    assert deliver(board)
    assert len(receiver.messages) == 1, "the cursor has moved"


def test_the_library_of_standard_webhooks_verifies_a_message_after_a_rotation(board: Board, receiver: Receiver) -> None:
    library = pytest.importorskip("standardwebhooks", reason="the library standardwebhooks is not installed")
    old = board.add_webhook(receiver.url, kinds=["claimable"], allow_private=True)
    new = old.secret[:-4] + "AAA="
    board.change_webhook(old.webhook.id, secret=new)
    board.add("ünï ☂", id="umbrella")
    assert deliver(board)
    (message,) = receiver.messages
    for secret in (old.secret, new):
        verified = library.Webhook(secret).verify(message.body, message.headers)
        assert verified["data"]["item"]["title"] == "ünï ☂"
        for body, headers in ((message.body + b" ", {}), (message.body, {"webhook-timestamp": "1700000000"})):
            with pytest.raises(library.WebhookVerificationError):
                library.Webhook(secret).verify(body, {**message.headers, **headers})


def test_after_a_rotation_both_secrets_sign_for_a_day(clock: tuple[Board, Clock], receiver: Receiver) -> None:
    board, time = clock
    made = board.add_webhook(receiver.url, kinds=["claimable"], allow_private=True)
    new = made.secret[:-4] + "AAA="
    board.change_webhook(made.webhook.id, secret=new)
    for item in ("soon", "late"):
        board.add(item, id=item)
        assert deliver(board)
        time.advance(86400)
    soon, late = receiver.messages
    assert [soon.is_signed_with(new), soon.is_signed_with(made.secret)] == [True, True]
    assert [late.is_signed_with(new), late.is_signed_with(made.secret)] == [True, False]


def test_only_its_kinds_and_projects_are_sent(board: Board, receiver: Receiver) -> None:
    hook(board, receiver, "pending_approval", "parked", projects=["web"])
    board.add("a draft", id="waits", project="web", needs_approval=True)
    board.edit("waits", title="still waits")
    board.add("elsewhere", id="elsewhere", needs_approval=True)
    board.add("ready", id="ready", project="web")
    board.park("ready")
    assert deliver(board)
    told = [(message.data["type"], message.event["item"]) for message in receiver.messages]
    assert told == [("pending_approval", "waits"), ("parked", "ready")]


def test_slack_is_told_a_text_in_which_nothing_is_a_mention(board: Board, receiver: Receiver) -> None:
    hook(board, receiver, format="slack")
    board.add("<!channel> & <https://evil.example|x> @everyone @channel https://evil.example", id="hostile")
    assert deliver(board)
    (message,) = receiver.messages
    assert message.data.keys() == {"text"}
    assert "&lt;!channel&gt; &amp;" in message.data["text"]
    for sign in ("<", "@everyone", "@channel", "://"):
        assert sign not in message.data["text"], sign


def test_a_failure_stops_the_cursor_until_the_retry(clock: tuple[Board, Clock], receiver: Receiver) -> None:
    board, time = clock
    hook(board, receiver)
    board.add("one", id="one")
    board.add("two", id="two")
    receiver.answer = lambda _: (503, {}, b"come\x1b[31m back later\nsecond line")
    assert not deliver(board)
    failing = now(board)
    assert (failing.attempts, failing.failure) == (1, "503 Service Unavailable: come [31m back later")
    assert not deliver(board)
    assert len(receiver.messages) == 1, "not before the retry is due"
    receiver.answer = lambda _: (200, {}, b"ok")
    time.advance(deliverer.RETRY_SECONDS)
    assert deliver(board)
    assert [message.event["item"] for message in receiver.messages] == ["one", "one", "two"]
    assert receiver.messages[0].id == receiver.messages[1].id
    assert (now(board).attempts, now(board).failing_at, now(board).failure) == (0, None, None)


def test_what_is_refused_for_too_long_is_a_dead_letter_that_is_sent_again_by_hand(
    clock: tuple[Board, Clock], receiver: Receiver
) -> None:
    board, time = clock
    id = hook(board, receiver, give_up_seconds=3600).id
    board.add("poison", id="poison")
    receiver.answer = lambda message: (500 if message.event["item"] == "poison" else 204, {}, b"")
    assert not deliver(board)
    time.advance(3600)
    board.add("sound", id="sound")
    assert deliver(board)
    assert [message.event["item"] for message in receiver.messages] == ["poison", "poison", "sound"]
    (letter,) = board.dead_letters(id)
    assert (letter.event.item, letter.attempts, now(board).dead) == ("poison", 2, 1)
    assert not board.send_webhook(id, event=letter.event.id).delivered
    assert board.dead_letters(id) == (letter,)
    receiver.answer = lambda _: (204, {}, b"")
    assert board.send_webhook(id, event=letter.event.id).delivered
    assert (board.dead_letters(id), now(board).dead) == ((), 0)
    assert receiver.messages[-1].id == receiver.messages[0].id
    with pytest.raises(Invalid):
        board.send_webhook(id, event=letter.event.id)


def test_a_receiver_that_is_gone_disables_its_webhook(board: Board, receiver: Receiver) -> None:
    id = hook(board, receiver).id
    board.add("one", id="one")
    receiver.answer = lambda _: (410, {}, b"")
    deliver(board)
    assert now(board).disabled_reason == "the receiver answered 410 Gone"
    receiver.answer = lambda _: (204, {}, b"")
    assert deliver(board)
    assert len(receiver.messages) == 1
    board.change_webhook(id, enabled=True)
    assert deliver(board)
    assert receiver.firsts() == [message.event["id"] for message in receiver.messages[:1]]
    assert len(receiver.messages) == 2, "it goes on where it stood"


def test_a_redirect_is_not_followed(board: Board, receiver: Receiver) -> None:
    with receiving() as elsewhere:
        hook(board, receiver)
        board.add("one", id="one")
        receiver.answer = lambda _: (307, {"Location": elsewhere.url}, b"")
        assert not deliver(board)
        assert "redirects are not followed" in (now(board).failure or "")
        assert elsewhere.messages == []


def test_a_long_answer_is_neither_read_nor_kept(board: Board, receiver: Receiver) -> None:
    hook(board, receiver)
    board.add("one", id="one")
    receiver.answer = lambda _: (500, {}, b"x" * 10_000_000)
    deliver(board)
    assert len(now(board).failure or "") == sending.ANSWER_SHOWN_MAX


def test_of_two_deliverers_one_sends(board: Board, receiver: Receiver) -> None:
    """The second begins while the first one's message is on its way."""
    hook(board, receiver)
    board.add("one", id="one")
    seen: list[bool] = []

    def answer(_: object) -> tuple[int, dict[str, str], bytes]:
        if not seen:
            seen.append(True)
            seen.append(deliver(board))
        return 204, {}, b""

    receiver.answer = answer
    assert deliver(board)
    assert seen == [True, False], "the other one has to wait"
    assert len(receiver.messages) == 1


@pytest.mark.parametrize(("when", "point", "number"), KILLED_AT)
def test_a_deliverer_killed_at_any_point_loses_nothing_and_keeps_the_order(
    board: Board, store: str, receiver: Receiver, when: str, point: str, number: int
) -> None:
    hook(board, receiver, "added", "claimable", "parked")
    for item in ("one", "two"):
        board.add(item, id=item)
        board.park(item)
    expected = [event.id for event in board.events() if event.kind in ("added", "claimable", "parked")]
    command = [sys.executable, "-m", "tests.webhooks.killed", store]
    killed = subprocess.run([*command, when, point, str(number)], capture_output=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    while True:  # until the lease of the dead process has ended
        done = subprocess.run([*command, "", "", "0"], capture_output=True, timeout=60)
        assert done.returncode in (0, 75), done.stderr
        if done.returncode == 0:
            break
    assert receiver.firsts() == expected
    repeated = len(receiver.messages) - len(expected)
    assert repeated <= 1, "only what was on its way"
    assert now(board).cursor == expected[-1]
