"""Tickets of one item, first come, first served; and soft claims, which bind nobody."""

from __future__ import annotations

from tests.kit.reference.moving import ENDED, Moving, No

DEFAULT_TTL_SECONDS = 600.0
SOFT_TTL_SECONDS = 1800.0


class Waiting(Moving):
    def wait(self, item: str, session: str, ttl_seconds: float | None) -> tuple[int, bool]:
        """A place in the queue: its position, and whether the item is kept for it now."""
        self.session(session)
        with self.up_to_date(item) as row:
            if row["status"] in ENDED:
                raise No("TASK_NOT_CLAIMABLE", status=row["status"])
        ticket = next((one for one in self.tickets[item] if one["session"] == session), None)
        if ticket is not None and ticket["expires_at"] <= self.now and row["offered_to"] != session:
            self.drop_ticket(item, session)  # a place that was not kept is lost
            ticket = None
        if ticket is None:
            ticket = {"session": session}
            self.tickets[item].append(ticket)
        ticket["expires_at"] = self.now + round((ttl_seconds or DEFAULT_TTL_SECONDS) * 1000)
        if row["status"] == "ready" and row["offered_to"] is None:
            self.offer(item)
        position = [one["session"] for one in self.waiters(item)].index(session) + 1
        return position, row["offered_to"] == session

    def leave(self, item: str, session: str) -> None:
        self.session(session)
        if not any(ticket["session"] == session for ticket in self.tickets[item]):
            raise No("TASK_NOT_CLAIMED", how="not_waiting")
        self.drop_ticket(item, session)
        if self.items[item]["offered_to"] == session:
            self.offer(item)

    def soft_claim(self, item: str, session: str, ttl_seconds: float | None) -> int:
        self.session(session)
        ttl_seconds = ttl_seconds or SOFT_TTL_SECONDS
        expires_at = self.now + round(ttl_seconds * 1000)
        self.soft[item, session] = {"ttl": ttl_seconds, "expires_at": expires_at}
        return expires_at

    def soft_release(self, item: str, session: str) -> None:
        soft = self.soft.get((item, session))
        if soft is None or soft["expires_at"] <= self.now:
            raise No("TASK_NOT_CLAIMED", how="never_claimed")
        del self.soft[item, session]
