"""The clients that can be set up, and the three things that can be done: set up, remove, check."""

from __future__ import annotations

import os
from dataclasses import replace

from dibs.agents import sessions
from dibs.agents import state as states
from dibs.agents.setup import agents_md, claude, codex, copilot, cursor, gemini, opencode, plan, record
from dibs.agents.setup.place import Place, Setup
from dibs.agents.setup.plan import Plan
from dibs.agents.setup.toml_edit import TomlEdit
from dibs.errors import Invalid

AGENTS_MD = "agents-md"
CLIENTS = {
    "claude": claude.setup,
    "codex": codex.setup,
    "cursor": cursor.setup,
    "gemini": gemini.setup,
    "opencode": opencode.setup,
    "copilot": copilot.setup,
    AGENTS_MD: agents_md.setup,
}
#: What may be set up for all sessions and for a project: the plugin of Claude Code runs once all the same.
IN_BOTH_SCOPES = ("claude", AGENTS_MD)


class Client:
    def __init__(self, name: str, place: Place) -> None:
        if name not in CLIENTS:
            raise Invalid(f"unknown client {name!r}; choose one of {', '.join(CLIENTS)}", field="client")
        self.name, self.place = name, place
        self._record = record.path_of(place.state, name, place.project)
        self._earlier = record.load(self._record)
        self.setup: Setup = CLIENTS[name](place)
        # Setup in one repository keeps what the sandbox needs in the others, as long as they exist. A root that does
        # not exist would break every command in the sandbox, in every repository.
        earlier = self._earlier.roots if self._earlier else []
        others = [root for root in earlier if root not in self.setup.roots]
        self.setup.roots += [root for root in others if os.path.isdir(root)]
        for edit in self.setup.edits:
            if isinstance(edit, TomlEdit):
                edit.roots = self.setup.roots
                edit.gone = [root for root in others if root not in self.setup.roots]

    def plan(self, *, remove: bool) -> Plan:
        setup = self.setup
        if remove:
            planned = plan.to_remove([*setup.edits, *setup.leftovers], self._earlier)
            planned.sessions = [] if self._earlier is None else self._open_sessions()
            return planned
        self._require_one_scope()
        return plan.to_set_up(setup.edits, setup.folders, setup.roots, self._earlier, os.path.dirname(self._record))

    def problems(self) -> list[str]:
        found = plan.problems(self.setup.edits, self.setup.folders)
        folder = os.path.join(self.place.state, "agents")
        if os.path.lexists(folder) and not states.is_private(folder):
            found.append(f"{folder} is another user's, or others may write it: no hook uses it; move it away")
        return found

    def carry_out(self, planned: Plan, *, remove: bool) -> None:
        if remove:
            plan.write(planned)
            for session in planned.sessions:
                sessions.remove(states.State(session))  # its keeper notices, and ends
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

    def _require_one_scope(self) -> None:
        """Refuse to set up hooks that would run twice."""
        if self.name in IN_BOTH_SCOPES:
            return
        again = f"every hook would run twice; first: dibs setup {self.name}"
        if self.place.project is None:
            prefix = f"{self.name}-"
            for path, other in record.others(self._record).items():
                there = [file for file in other.files if os.path.exists(file)]
                if os.path.basename(path).startswith(prefix) and there:
                    raise Invalid(f"{there[0]} is set up already: {again} --project --remove, there", field="project")
            return
        for edit in CLIENTS[self.name](replace(self.place, project=None)).edits:
            text = None if isinstance(edit, TomlEdit) else plan.read(edit.path)
            if text is not None and edit.stripped(text) != text:
                raise Invalid(f"{edit.path} is set up already: {again} --remove", field="project")

    def _open_sessions(self) -> list[str]:
        """The client's open sessions that no other setup of it looks after."""
        found = [one for state in states.all_states() if (one := state.record()) is not None and one.parent is None]
        return sorted(one.session for one in found if one.client == self.name and self._is_only_setup(one.folder))

    def _is_only_setup(self, folder: str) -> bool:
        """Whether the sessions in a folder have their hooks from this setup alone."""
        scopes: list[str | None] = [None]
        while folder not in scopes:
            scopes.append(folder)
            folder = os.path.dirname(folder)
        records = [record.path_of(self.place.state, self.name, scope) for scope in scopes]
        return self._record in records and sum(map(os.path.exists, records)) == 1
