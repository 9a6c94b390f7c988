"""The clients that can be set up, and the three things that can be done: set up, remove, check."""

from __future__ import annotations

import os

from dibs.agents.setup import claude, codex, copilot, cursor, gemini, opencode, plan, record
from dibs.agents.setup.place import Place, Setup
from dibs.agents.setup.plan import Plan
from dibs.agents.setup.toml_edit import RootsEdit
from dibs.errors import Invalid

CLIENTS = {
    "claude": claude.setup,
    "codex": codex.setup,
    "cursor": cursor.setup,
    "gemini": gemini.setup,
    "opencode": opencode.setup,
    "copilot": copilot.setup,
}


class Client:
    def __init__(self, name: str, place: Place) -> None:
        if name not in CLIENTS:
            raise Invalid(f"unknown client {name!r}; choose one of {', '.join(CLIENTS)}", field="client")
        self.place = place
        self._record = record.path_of(place.state, name, place.project)
        self._earlier = record.load(self._record)
        self.setup: Setup = CLIENTS[name](place)
        # Setup in one repository keeps what the sandbox needs in the others, as long as they exist.
        earlier = [root for root in (self._earlier.roots if self._earlier else []) if os.path.isdir(root)]
        self.setup.roots += [root for root in earlier if root not in self.setup.roots]
        for edit in self.setup.edits:
            if isinstance(edit, RootsEdit):
                edit.roots = self.setup.roots

    def plan(self, *, remove: bool) -> Plan:
        setup = self.setup
        if remove:
            return plan.to_remove([*setup.edits, *setup.leftovers], self._earlier)
        return plan.to_set_up(setup.edits, setup.folders, setup.roots, self._earlier, os.path.dirname(self._record))

    def problems(self) -> list[str]:
        return plan.problems(self.setup.edits, self.setup.folders)

    def carry_out(self, planned: Plan, *, remove: bool) -> None:
        if remove:
            plan.write(planned)
            record.delete(self._record, planned.folders)
            return
        plan.make_folders(planned.folders, [self.place.state, *self.setup.roots])
        try:
            # First the record: a setup that is killed can be taken back.
            record.save(self._record, planned.record)
            plan.write(planned)
        except BaseException:
            if self._earlier is None:
                record.delete(self._record, list(reversed(planned.folders)))
            else:
                record.save(self._record, self._earlier)
            raise
