"""Where messages must not go: private addresses, however a host name leads there."""

from __future__ import annotations

from typing import Any

import pytest

from dibs.webhooks import addresses, sending
from tests.webhooks.receiver import receiving

PRIVATE = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1%lo", "fc00::1"),
    *("fd00:ec2::254", "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1"),
    *("64:ff9b:1::a00:1", "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "::127.0.0.1", "nonsense"),
    *("192.0.0.192", "168.63.129.16", "::ffff:0:7f00:1", "100.100.100.200", "fe80::1%25lo"),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_not_public(address: str) -> None:
    assert not addresses.is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_a_public_address_is_public(address: str) -> None:
    assert addresses.is_public(address)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "0"])
def test_a_name_of_this_machine_is_refused_before_a_connection_is_made(host: str) -> None:
    with receiving() as receiver:
        url = receiver.url.replace("127.0.0.1", host)
        outcome = sending.post(url, b"{}", {}, allow_private=False)
        assert "private address" in (outcome.failure or ""), outcome
        assert receiver.messages == []


def answers(*each: str) -> Any:
    """A resolver with another answer each time, as the DNS of an attacker has, and how often it was asked."""
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[tuple[Any, ...]]:
        asked.append(host)
        found = each[min(len(asked), len(each)) - 1].split(",")
        return [one for address in found for one in addresses.resolve(address, port)]

    resolve.asked = asked  # type: ignore[attr-defined]
    return resolve


def test_one_private_address_among_public_ones_is_refused() -> None:
    resolve = answers("1.1.1.1,127.0.0.1")
    outcome = sending.post("https://example.org/", b"{}", {}, allow_private=False, resolve=resolve)
    assert "private address, 127.0.0.1" in (outcome.failure or "")


def test_a_name_that_resolves_anew_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.2 stands for a public address; by the time of the connection, the name has the address of a victim."""
    monkeypatch.setattr(addresses, "is_public", lambda address: address == "127.0.0.2")
    with receiving("127.0.0.1") as victim:
        port = int(victim.url.rpartition(":")[2].partition("/")[0])
        with receiving("127.0.0.2", port) as checked:
            resolve = answers("127.0.0.2", "127.0.0.1")
            headers = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": ""}
            url = f"http://rebinding.example:{port}/hook"
            assert sending.post(url, b"{}", headers, allow_private=False, resolve=resolve).failure is None
            assert resolve.asked == ["rebinding.example"]
            assert (len(checked.messages), len(victim.messages)) == (1, 0)
