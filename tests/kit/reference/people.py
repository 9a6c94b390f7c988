"""What people do: add, edit, set aside, approve, try again, give up; and sessions that start and end."""

from __future__ import annotations

from tests.kit.reference.moving import ENDED, RESTING, Moving, No

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Where an approved item may be taken up from again, besides those at rest.
MAY_GO_ON = ("in_progress", "parked", "failed")


class People(Moving):
    def edit(self, item: str, **changes: Any) -> None:
        with self.up_to_date(item) as row:
            if all(row[name] == value for name, value in changes.items()):
                return
            if changes.get("subject") and (other := self.of_subject(changes["subject"])) is not None:
                raise No("INVALID", field="subject", item=other)
            if "depends_on" in changes and self._leads_back(item, changes["depends_on"]):
                raise No("INVALID", field="depends_on")
            withdrawn = row["approved"] and "title" in changes
            if withdrawn and row["status"] == "in_progress":
                raise No("INVALID", field="title")
            row.update(changes)
            if withdrawn:
                row.update(needs_approval=True, approved=False)
            self.move(item, self.rest(item) if row["status"] in RESTING else row["status"])

    def cancel(self, item: str) -> None:
        if self.items[item]["status"] in ENDED:
            raise self._not_now(item)
        if item in self.claims:
            self.end(item, "cancelled", "cancelled")
        else:
            self.move(item, "cancelled")

    def retry(self, item: str) -> None:
        with self.up_to_date(item) as row:
            self._need(item, "failed")
            row.update(strikes=0, failures=0, not_before=None)
            self.move(item, self.rest(item))

    def reopen(self, item: str) -> None:
        row = self.items[item]
        self._need(item, "done", "cancelled", "rejected")
        for other in sorted(other for other, its in self.items.items() if item in its["depends_on"]):
            self.freshen(other)  # stays, also if it is refused
            if self.items[other]["status"] in ("in_progress", *ENDED):
                raise self._not_now(item)
        row.update(strikes=0, failures=0)
        if row["approved"]:
            row.update(approved=False, needs_approval=not row["review"])
        self.move(item, self.rest(item))

    def park(self, item: str) -> None:
        with self.up_to_date(item):
            self._need(item, *RESTING)
            self.move(item, "parked")

    def unpark(self, item: str) -> None:
        self._need(item, "parked")
        self.move(item, self.rest(item))

    def approve(self, item: str, actor: str, *, done: bool, token: int | None = None) -> str:
        self._need(item, "pending_approval")
        drafted = self.drafted(item)
        if token is not None and token != drafted:
            raise self._not_now(item)
        if drafted is not None and self.sessions[self.runs[item, drafted]["session"]]["agent"] == actor:
            raise No("FORBIDDEN", agent=actor)
        self.items[item].update(needs_approval=False, approved=True)
        is_result = drafted == self.items[item]["token"] and "is_result" in self.runs[item, self.items[item]["token"]]
        status = "done" if done or (is_result and self.items[item]["review"]) else self.rest(item)
        self.move(item, status)
        return status

    def drafted(self, item: str) -> int | None:
        """The token of the latest run that was submitted."""
        runs = self.runs.items()
        return max((token for (of, token), run in runs if of == item and run["outcome"] == "submitted"), default=None)

    def send_back(self, item: str) -> None:
        self._need(item, "pending_approval")
        self.items[item].update(needs_approval=False)  # only a result is sent back of what was approved
        self.move(item, self.rest(item))

    def reject_by_person(self, item: str) -> None:
        self._need(item, "pending_approval")
        self.move(item, "rejected")

    def annotate(self, item: str, session: str | None, token: int | None, check: str) -> str | None:
        if session is not None:
            self.session(session)
        with self.up_to_date(item) as row:
            if token is not None and token > row["token"]:
                raise No("INVALID", field="token")
            known = [number for of, number in self.runs if of == item]
            key = item, max(known, default=0) if token is None else token
            if key not in self.runs:
                raise No("TASK_NOT_CLAIMED", how="never_claimed")
            whose, outcome = self.sessions[self.runs[key]["session"]]["agent"], self.runs[key]["outcome"]
            if session is not None and self.sessions[session]["agent"] != whose:
                raise No("NOT_CLAIM_OWNER")
            if outcome is None and self.runs[key]["session"] != session:
                raise self._not_now(item)
            # What is approved is the latest draft: another one takes the approval back.
            if row["approved"] and key[1] == self.drafted(item) and row["status"] in (*RESTING, *MAY_GO_ON):
                raise self._not_now(item)
            if self.annotations.get(key) != check:
                self.annotations[key] = check
                self.move(item, row["status"])
            return None if outcome is None else str(outcome)

    # Sessions

    def start_session(self, session: str, agent: str, parent: str | None = None) -> str | None:
        known = self.sessions.get(session, {"live": False})
        if known["live"]:
            if parent not in (None, known["parent"]):
                raise No("INVALID", field="parent", parent=known["parent"])
            return str(known["parent"]) if known["parent"] else None
        if parent == session:
            raise No("INVALID", field="parent")
        if parent is not None:
            self.session(parent)
        self.sessions[session] = {"agent": agent, "live": True, "parent": parent}
        self.limits.setdefault(agent, (None, None))
        return parent

    def end_session(self, session: str) -> set[str]:
        self.session(session)
        family = [session]
        for one in family:
            family += [child for child, row in self.sessions.items() if row["live"] and row["parent"] == one]
        for item, tickets in self.tickets.items():
            gone = {ticket["session"] for ticket in tickets} & set(family)
            for one in gone:
                self.drop_ticket(item, one)
            if self.items[item]["offered_to"] in gone:
                self.offer(item)
        held = {item for one in family for item in self.held(one)}
        for item in [item for item, claim in self.claims.items() if claim["session"] in family]:
            self.end(item, "released", self.rest(item)) if item in held else self.expire(item)
        self.soft = {key: soft for key, soft in self.soft.items() if key[1] not in family}
        for one in family:
            self.sessions[one]["live"] = False
        return held

    def _need(self, item: str, *statuses: str) -> None:
        if self.items[item]["status"] not in statuses:
            raise self._not_now(item)

    def _not_now(self, item: str) -> No:
        return No("TASK_NOT_CLAIMABLE", status=self.items[item]["status"])

    def _leads_back(self, item: str, needs: tuple[str, ...]) -> bool:
        """Whether one of these depends on the item, itself or through others."""
        seen: set[str] = set()
        ahead = list(needs)
        while ahead:
            one = ahead.pop()
            if one not in seen:
                seen.add(one)
                ahead.extend(self.items[one]["depends_on"])
        return item in seen
