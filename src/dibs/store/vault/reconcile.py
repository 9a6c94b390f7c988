"""Changes to the files become changes on the board.

A file that differs from the index was saved, moved, created or removed by a person, by a program that knows only the
folders, by another clone, or by a dibs process that was killed before its COMMIT. The cause does not matter: the item
is compared with its file, and the difference becomes verbs.
"""

from __future__ import annotations

import contextlib
from functools import cache, partial

from dibs.errors import DibsError, Invalid, ItemNotClaimable
from dibs.model import EDITABLE, ENDED, IN_PROGRESS, PENDING_APPROVAL, READY, NewItem
from dibs.rules import ending, items, queueing, reviewing
from dibs.rules.decision import State
from dibs.store.sql import item_verbs, rows
from dibs.store.vault import layout, void_runs
from dibs.store.vault.file_identity import TaskFiles
from dibs.store.vault.folder_verbs import ACTOR, FolderVerbs, send_back
from dibs.store.vault.index import UNSEEN, Entry
from dibs.store.vault.layout import name_of
from dibs.store.vault.taskfile import run_annotations, task_text
from dibs.store.vault.taskfile.facts import digest
from dibs.store.vault.taskfile.run_blocks import shows_another_draft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.rules.decision import Step
    from dibs.store.vault.disk import Disk, Stamp
    from dibs.store.vault.git.sync import Sync
    from dibs.store.vault.index import VaultTransaction
    from dibs.store.vault.taskfile.task_text import Facts, Review, Task

#: How long the file of a claimed item may be missing: some programs save by removing the old file first.
GONE_SECONDS = 2.0


class Reconciler:
    """One pass over the differences between the index (`known`) and a scan (`seen`, and `unfit` with the reasons)."""

    def __init__(
        self,
        t: VaultTransaction,
        disk: Disk,
        seen: Mapping[str, Stamp],
        known: Mapping[str, Entry],
        unfit: Mapping[str, str],
        remote: Sync | None,
    ) -> None:
        self.t, self.disk, self.seen, self.known, self.unfit, self._remote = t, disk, seen, known, unfit, remote
        self._files = TaskFiles(t, disk, seen, known, self._reject)
        self._tasks = self._files.tasks
        #: Items whose files are not to be written.
        self._untouched: set[str] = set()
        #: Files in a folder for approved items whose approval is void.
        self._unapproved: set[str] = set()
        # Computed once for all files, and only in the few passes that need them.
        self._tokens_sent = cache(self._find_tokens_sent)
        self._archived = cache(lambda: {task_text.id_of(name) for name in disk.names_in(layout.ARCHIVE)})

    def reconcile(self) -> list[Step]:
        """Return the steps that are to be written into files. A file that caused its steps needs no write, unless the
        item is stale."""
        paths_of = self._files.by_item()
        known = {entry.item: entry for entry in self.known.values() if entry.item is not None}
        new: list[str] = []
        for id, paths in [*paths_of.items()]:
            entry = known.get(id)
            main = self._files.main_file(paths, entry)
            for other in paths:
                if other == main:
                    continue
                if self._files.is_another_item(other, main):
                    self._files.give_own_id(other, paths_of)
                    new.append(other)
                else:
                    self._reject(other, f"{main} is {id} already; rename one of them")
            if entry is None and self.t.one("item_by_id", id=id) is None:
                new.append(main)
            elif main in self._tasks:
                self._try_update(main)
        self._add_all(new)
        for entry in self.known.values():
            if entry.item is None:
                if entry.path not in self.seen:
                    self.t.forget_entry(entry.path)
            elif entry.item not in paths_of:
                self._handle_missing(entry)
        unwritten = {task.id for task in self._tasks.values()} | self._untouched
        return [step for step in self.t.steps if step.item.id in self.t.stale or step.item.id not in unwritten]

    def _reject(self, path: str, why: str) -> None:
        """Note a file that is not an item, or whose item cannot be read now; the item is not handed out."""
        entry = self.known.get(path)
        item = None if entry is None else entry.item
        self._tasks.pop(path, None)
        self.t.put_entry(Entry(path=path, item=item, stamp=self.seen[path], problem=why))
        if item is not None:
            self._hold_back(item, f"{path}: {why}")

    def _hold_back(self, item: str, reason: str) -> None:
        """Park a ready item, and leave its file alone."""
        self._untouched.add(item)
        state = self.t.state(item)
        if state.item.status == READY:
            self.t.apply_with_effects(state, items.park(self.t.now, state, actor=ACTOR, reason=reason))

    def _record(self, path: str, remarks: Sequence[str]) -> None:
        task = self._tasks[path]
        if not self._files.names_its_item(path):
            self.t.stale.add(task.id)
        remark, stamp = "; ".join(remarks) or None, self._files.stamps[path]
        self.t.put_entry(Entry(path=path, item=task.id, stamp=stamp, remark=remark))
        if task.foreign_claim is not None:
            self.t.put_foreign_claim(task.id, task.foreign_claim.key)

    # New items

    def _add_all(self, paths: list[str]) -> None:
        floors = [facts.floor for path in paths if (facts := self._tasks[path].facts) is not None]
        if any(floors):
            self.t.run("raise_floor", {"name": "token_floor", "value": max(floors)})
        for path in self._files.dependencies_first(paths):
            why = self._try_add(path)
            if why is not None:
                self._reject(path, why)

    def _try_add(self, path: str) -> str | None:
        """Add one item; return why it cannot be added."""
        try:
            self.t.attempt(lambda: self._add(path))
        except DibsError as error:
            return error.message
        except (TypeError, ValueError) as error:
            return f"it cannot be added: {error}"
        return None

    def _add(self, path: str) -> None:
        self._tasks[path] = task = self._without_void_approval(path)
        self._insert(task)
        self._record(path, (*task.findings, *self._follow_folder(path, task)))
        self._import_annotations(task, self.t.approved_draft(self.t.state(task.id).item))  # those of a live claim

    def _without_void_approval(self, path: str) -> Task:
        """The task; without its approval, if the file shows another draft than was approved."""
        task = self._tasks[path]
        facts = task.facts
        approved = None if facts is None or not facts.approved else facts.approval
        if facts is None or approved is None or approved["draft"] is None:
            return task
        shown = next((run.draft for run in task.runs if run.token == approved["token"]), None)
        if digest(shown) == approved["draft"]:
            return task
        if layout.split(path)[0] in layout.UNCLAIMED:
            self._unapproved.add(path)
        self.t.stale.add(task.id)
        return task.replace(facts=facts.replace(approved=False, approval=None))

    def _insert(self, task: Task) -> None:
        t, facts = self.t, task.facts
        at, actor = (t.now, ACTOR) if facts is None else (min(facts.created_at, t.now), facts.created_by)
        # An item with open dependents is archived only if it was done, so an archived dependency blocks nothing.
        new = NewItem(id=task.id, **task.content)
        found = item_verbs.open_dependencies(item_verbs.statuses_of(t, new.depends_on), new.depends_on)
        blockers = [one for one in found if one.item not in self._archived()]
        step = items.add(at, new, actor=actor, token_floor=t.token_floor(), blockers=blockers)
        t.apply(step)
        for one in set(step.item.depends_on) & self._archived():
            t.query("forget_dependency", item=task.id, needs=one)
        item_verbs.refuse_cycles(t, [step.item])
        if step.item.status == READY:
            t.apply(queueing.available(at, State(item=step.item), t.settings))
        if facts is not None:
            self._restore_history(task, facts)

    def _restore_history(self, task: Task, facts: Facts) -> None:
        """Restore the history of an item that this index did not have, from its file. `_follow_folder` restores a live
        claim."""
        t = self.t
        runs = [run for run in task.runs if run.outcome is not None and run.token <= facts.token]
        for run in runs:
            t.run("insert_run", rows.encode(run))
        state = t.state(task.id)
        token = facts.token - (facts.claim is not None)
        review = task.sent_back(token)
        step = items.found(
            t.now,
            state,
            status=PENDING_APPROVAL if facts.approved or review is not None else state.item.status,
            actor=ACTOR,
            token=token,
            attempts=facts.attempts - (facts.claim is not None),
            strikes=facts.strikes,
            failures=facts.failures,
            runs=tuple(run.token for run in runs),
        )
        if step is not None:
            t.apply(step)
        self._import_annotations(task, approved=None)
        if facts.approved and facts.approval is not None:
            state = t.state(task.id)
            approval, draft = facts.approval, t.draft(task.id)
            step = reviewing.approve(
                t.now, state, draft, actor=approval["actor"], comment=approval["comment"], done=False
            )
            t.apply_with_effects(state, step)
        elif review is not None:
            self._send_back(task.id, review)

    def _send_back(self, item: str, review: Review) -> None:
        """Record a review, so that the next holder reads its comment."""
        state = self.t.state(item)
        self.t.apply_with_effects(state, send_back(review, self.t.now, state))

    # Known items

    def _try_update(self, path: str) -> None:
        try:
            self.t.attempt(lambda: self._update(path))
        except (TypeError, ValueError) as error:
            self._reject(path, f"it cannot be read as an item: {error}")

    def _update(self, path: str) -> None:
        """Update a known item from its file. An edit that is not allowed stays in the file, and becomes a remark."""
        task = self._tasks[path]
        before = self.t.entry_of(task.id)
        approved = self.t.approved_draft(self.t.state(task.id).item)
        if self._is_overruled(task):
            void_runs.void_local_runs(self.t, task, ACTOR)
        refused = self._edit(task)
        self._check_draft(path, task)
        not_followed = self._follow_folder(path, task)
        refused = refused and self._edit(task)  # the claim that was in its way may have ended
        self._import_runs(task)
        self._import_annotations(task, approved)
        self._record(path, (*task.findings, *refused, *not_followed))
        if before is not None and task.facts is None and name_of(before.path) != task.name:
            # After a rename by a person, a new file under the old name is not a late save.
            self.t.forget_vacated(before.path)

    def _is_overruled(self, task: Task) -> bool:
        """Whether the remote's record, which came with this file, contradicts claims that this clone gave by itself."""
        if self._remote is None or not void_runs.is_contradicted(self.t, task, self.t.state(task.id)):
            return False
        return any(void_runs.sessions_of(record) == void_runs.sessions_of(task) for record in self._records(task))

    def _records(self, task: Task) -> list[Task]:
        return [] if self._remote is None else self._remote.records(task.name)

    def _find_tokens_sent(self) -> dict[str, int]:
        return {} if self._remote is None else self._remote.tokens_sent({task.name for task in self._tasks.values()})

    def _edit(self, task: Task) -> list[str]:
        """Edit the item as its file shows; return why that is refused."""
        item = rows.item(self.t.one("item_by_id", id=task.id) or ())
        changes = {name: task.content[name] for name in EDITABLE if getattr(item, name) != task.content[name]}
        try:
            if changes:
                self.t.attempt(lambda: item_verbs.edit(self.t, task.id, changes, actor=ACTOR, allow_missing=True))
        except DibsError as error:
            return [error.message]
        return []

    def _check_draft(self, path: str, task: Task) -> None:
        """If the file shows another draft than the submitted one, have the submitted draft written back. A move of the
        file then approves nothing, unless the file shows a later state of the item."""
        draft, state, facts = self.t.draft(task.id), self.t.state(task.id), task.facts
        if draft is None or not shows_another_draft(task.runs, draft):
            return
        self.t.stale.add(task.id)
        if state.item.status != PENDING_APPROVAL or (facts is not None and facts.token > state.item.token):
            return
        folder, approved = layout.split(path)[0], None
        if facts is not None and facts.approved and facts.approval is not None:
            approved = facts.approval["draft"] or ""
        if "approve" not in layout.MOVES[PENDING_APPROVAL].get(folder, ()) and approved is None:
            return
        if approved != digest(draft.draft):
            self._unapproved.add(path)

    def _import_runs(self, task: Task) -> None:
        """Import runs that began and ended in another clone between two looks."""
        t, state = self.t, self.t.state(task.id)
        ended = [run for run in task.runs if run.outcome is not None and run.token <= state.item.token]
        runs = [run for run in ended if t.run_of(task.id, run.token) is None]
        if not runs or state.claim is not None or task.facts is None:
            return
        for run in runs:
            t.run("insert_run", rows.encode(run))
        review = task.sent_back(runs[-1].token) if state.item.status == READY else None
        step = items.found(
            t.now,
            state,
            status=state.item.status if review is None else PENDING_APPROVAL,
            actor=ACTOR,
            needs_approval=state.item.needs_approval or review is not None,
            runs=tuple(run.token for run in runs),
        )
        if step is not None:
            t.apply(step)
        if review is not None:
            self._send_back(task.id, review)

    def _import_annotations(self, task: Task, approved: int | None) -> None:
        """Import annotations that were made in another clone. If the file lacks known annotations, because an older
        text was saved late, they are written again. `approved` is the run whose draft was approved before."""
        t, sessions = self.t, {run.token: run.session for run in task.runs}
        keys = {one.key for one in t.annotations(task.id)}
        for one in task.annotations:
            run = None if one.key in keys else t.run_of(task.id, one.token)
            if run is None or sessions.get(run.token, run.session) != run.session:
                continue
            if run.outcome is None and one.actor != run.agent:
                continue  # until a run ends, its holder alone annotates it
            # An annotation beyond the limits of a run, or of an approved run, stays in the file only.
            with contextlib.suppress(Invalid, ItemNotClaimable):
                step = reviewing.import_annotation(
                    t.now, t.state(task.id), run, one.values, at=one.at, approved=approved, actor=one.actor
                )
                t.apply(step)
                keys.add(one.key)
        if run_annotations.merge(one for one in task.annotations if one.key in keys) != t.annotated_values(task.id):
            t.stale.add(task.id)

    def _follow_folder(self, path: str, task: Task) -> list[str]:
        """Run the verbs that bring the item to the folder of its file; return what is refused. If the file does not
        match the item afterwards, the item is stale."""
        folder, agent, _ = layout.split(path)
        if path in self._unapproved:
            folder, agent = layout.FOLDERS[PENDING_APPROVAL], None
        elif folder == layout.HELD and path in self._files.copies:
            # A duplicate in a holder's folder is not claimed.
            folder, agent = layout.FOLDERS[READY], None
        claim = None if task.facts is None else task.facts.claim
        if claim is not None and (folder != layout.HELD or claim.agent != agent):
            self.t.stale.add(task.id)  # the claim in the text is void
            claim = None
        if folder in layout.ENDS:
            agent = self._foreign_claimant(path, task)
        refused = FolderVerbs(self.t, task, folder, agent, claim, self._tokens_sent, partial(self._records, task)).run()
        state = self.t.state(task.id)
        holder = None if state.claim is None else state.claim.agent
        is_elsewhere = layout.folder_of(state.item.status, holder) != path.rpartition("/")[0]
        if is_elsewhere or not _matches(task, state):
            self.t.stale.add(task.id)
        return refused

    def _foreign_claimant(self, path: str, task: Task) -> str | None:
        """The agent whose program claimed and ended the item since the last look, by a block that the file did not have
        then. Claims from before dibs managed the vault do not count, nor those that a dibs or another clone has
        counted."""
        claim = task.foreign_claim
        if claim is None or claim.key == self.t.known_foreign_claim(task.id):
            return None
        token = 0 if task.facts is None else task.facts.token
        if self.t.entry_of(task.id) is None:
            is_counted = not self.known or token > 0
        else:
            is_counted = token > self.t.state(task.id).item.token
        if is_counted or claim.moved_to not in (None, layout.split(path)[0]):
            return None
        is_from_remote = self._remote is not None and path in self._remote.known_paths([path])
        return None if is_from_remote else claim.agent

    # Items without a file

    def _handle_missing(self, entry: Entry) -> None:
        """Handle an item without a file. An ended item stays as it is, a claimed item is cancelled after
        `GONE_SECONDS`, any other item at once."""
        t = self.t
        assert entry.item is not None
        folders = (entry.path, entry.path.rpartition("/")[0], entry.path.partition("/")[0])
        why = next((self.unfit[path] for path in folders if path in self.unfit), None)
        if why is not None:
            # The file exists but cannot be used: its folder is a link now, for instance.
            why = f"it or its folder {why}"
            t.put_entry(entry.replace(stamp=UNSEEN, problem=why))
            self._hold_back(entry.item, f"{entry.path}: {why}")
            return
        state = t.state(entry.item)
        gone_at = entry.gone_at or t.now
        if state.item.status == IN_PROGRESS and t.now - gone_at < GONE_SECONDS * 1000:
            t.put_entry(entry.replace(gone_at=gone_at))
            return
        t.forget_entry(entry.path)
        self._untouched.add(entry.item)
        if state.item.status not in ENDED:
            t.apply_with_effects(state, ending.cancel(t.now, state, actor=ACTOR, reason="its file was removed"))


def _matches(task: Task, state: State) -> bool:
    """Whether the file shows the item's token and claim."""
    facts, claim = task.facts, state.claim
    if facts is None:
        return state.item.attempts == 0
    shown = None if facts.claim is None else (facts.claim.token, facts.claim.session)
    return facts.token >= state.item.token and shown == (None if claim is None else (claim.token, claim.session))
