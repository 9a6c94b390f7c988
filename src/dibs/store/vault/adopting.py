"""What happened to the files behind the board's back becomes what happened on the board.

A file that is not as the index knows it was saved, moved, made or taken away by a person, by a program that knows only
the folders, by another machine, or by a dibs that was killed before it could commit. It does not matter which: how the
item stands is compared with how its file lies, and the difference is put into verbs.
"""

from __future__ import annotations

import contextlib
from functools import cache

from dibs.errors import DibsError, Invalid, ItemNotClaimable
from dibs.model import EDITABLE, ENDED, IN_PROGRESS, PENDING_APPROVAL, READY, NewItem
from dibs.rules import annotating, approving, ending, finding, items, queueing
from dibs.rules.decision import State
from dibs.store.tables import adding, rows
from dibs.store.vault import catalog, folders, naming, taskfile, tentative
from dibs.store.vault.beneath import FILE_BYTES_MAX, ROOM_BYTES
from dibs.store.vault.catalog import Entry
from dibs.store.vault.disk import Disk, Raced, Unfit
from dibs.store.vault.facts import digest
from dibs.store.vault.placing import ACTOR, Placing, sent_back_with
from dibs.store.vault.runblocks import merged, shows_another_draft

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.rules.decision import Step
    from dibs.store.vault.disk import Stamp
    from dibs.store.vault.syncing import Sync
    from dibs.store.vault.taskfile import Facts, Task, Word
    from dibs.store.vault.transaction import VaultTransaction

#: How long the file of an item that somebody holds may be away: some programs save by taking the old one away first.
GONE_SECONDS = 2.0


class Adopting:
    """One look at what is not as the index knows it."""

    def __init__(
        self,
        t: VaultTransaction,
        disk: Disk,
        seen: Mapping[str, Stamp],
        known: Mapping[str, Entry],
        unfit: Mapping[str, str],
        arbiter: Sync | None,
    ) -> None:
        self.t, self.disk, self.seen, self.known, self.unfit = t, disk, seen, known, unfit
        self._arbiter = arbiter
        #: Asked for all files at once, and only if one of them was taken by a move.
        self._tokens_sent = cache(self._ask_tokens_sent)
        self._tasks: dict[str, Task] = {}
        self._stamps: dict[str, Stamp] = {}
        #: Items whose very files lie elsewhere by now, by that path.
        self._found = naming.found_again(seen, known)
        self._left_alone: set[str] = set()
        self._put_away: set[str] | None = None
        #: Files that are duplicates of others, with what dibs wrote there.
        self._copies: set[str] = set()
        #: Files that lie where what was approved lies, and what was approved is not what counts.
        self._unapproved: set[str] = set()

    def adopt(self) -> list[Step]:
        """Do so; the steps that are to be written into files: those of items whose files say so themselves are not,
        unless a file says what is not so."""
        places = self._read()
        self._find_by_facts(places)
        moved = {entry.item: entry for entry in self.known.values() if entry.item is not None}
        new: list[str] = []
        for id, paths in [*places.items()]:
            entry = moved.get(id)
            path = self._first(paths, entry)
            for other in paths:
                if other == path:
                    continue
                if self._is_another(other, path):
                    new.append(self._named_anew(other, places))
                else:
                    self._set_aside(other, f"{path} is {id} already; give one of them another name")
            if entry is None and self.t.one("item_by_id", id=id) is None:
                new.append(path)
            elif path in self._tasks:
                self._again(path)
        self._take_new(new)
        for entry in self.known.values():
            if entry.item is None:
                if entry.path not in self.seen:
                    catalog.forget(self.t, entry)
            elif entry.item not in places:
                self._miss(entry)
        told = {task.id for task in self._tasks.values()} | self._left_alone
        return [step for step in self.t.steps if step.item.id in self.t.stale or step.item.id not in told]

    def _first(self, paths: list[str], entry: Entry | None) -> str:
        """Of several files that say they are one item, the one that is known to be; unless another has been further: it
        was claimed elsewhere while this one was named anew."""
        furthest = max(paths, key=self._weight)
        if entry is None or entry.item is None:
            return furthest
        place = entry.path if entry.path in paths else next((one for one in paths if self._found.get(one)), None)
        if place is None:
            return furthest
        known = max(self._token(entry.item), self._weight(place)[0])
        return place if self._weight(furthest)[0] <= known else furthest

    def _weight(self, path: str) -> tuple[int, bool]:
        """How far a file has been, and whether somebody holds it."""
        task = self._tasks.get(path)
        facts = None if task is None else task.facts
        return (-1 if facts is None else facts.token, path.startswith(folders.HELD))

    def _read(self) -> dict[str, list[str]]:
        """Every item that has a file, and where: what is as it was known is not read again."""
        places: dict[str, list[str]] = {}
        found = self._found
        for path, stamp in self.seen.items():
            entry = self.known.get(path)
            if entry is not None and entry.item is not None and entry.stamp == stamp and not _is_open(entry):
                places.setdefault(entry.item, []).append(path)
                continue
            task = self._task(path, found.get(path) if entry is None else entry.item)
            if task is not None:
                places.setdefault(task.id, []).append(path)
            elif entry is not None and entry.item is not None:
                places.setdefault(entry.item, []).append(path)
        return places

    def _find_by_facts(self, places: dict[str, list[str]]) -> None:
        """Files that dibs wrote and that have another name now: the item's own, if it has lost its file, or a copy."""
        for path in sorted(self._tasks, key=self._weight, reverse=True):
            task, entry = self._tasks[path], self.known.get(path)
            item = naming.said_by_dibs(task)
            if item is None or (entry is not None and entry.item is not None):
                continue
            if item not in places and self._token(item) <= self._weight(path)[0]:
                places[task.id].remove(path)
                if not places[task.id]:
                    del places[task.id]
                places[item] = [path]
                self._tasks[path] = naming.as_item(task, item)
            else:
                self._copies.add(path)
                self._tasks[path] = naming.as_copy(task, task.id)

    def _is_another(self, path: str, first: str) -> bool:
        """Of two files that are one item by what they say: whether the second is another item after all. A person who
        duplicates a file means that, and who gives a file a name that another one had before."""
        if naming.name_of(path) == naming.name_of(first):
            return False
        task = self._tasks.get(path) or self._task(path, None)
        if task is None:
            return False
        if task.facts is not None and task.facts.id == task.id:
            return task.facts.token <= max(self._token(task.id), self._weight(first)[0])
        return naming.is_told_by_its_name_only(task)

    def _named_anew(self, path: str, places: Mapping[str, list[str]]) -> str:
        name, task = naming.name_of(path), self._tasks[path]
        id = taskfile.id_of(name)
        is_free = id not in places and self.t.one("item_by_id", id=id) is None
        if task.facts is not None:
            self._copies.add(path)
        self._tasks[path] = naming.as_copy(task, naming.own_id(name, is_free=is_free)).replace(says_id=False)
        return path

    def _token(self, item: str) -> int:
        row = self.t.one("item_by_id", id=item)
        return -1 if row is None else rows.item(row).token

    def _task(self, path: str, item: str | None) -> Task | None:
        """What a file says that is known to be of `item`, if it is."""
        try:
            text, stamp = self.disk.read(path)
            if item is None and not text.strip():
                # Somebody is about to write it.
                catalog.put(self.t, Entry(path=path, item=None, stamp=stamp))
                return None
            if len(text) > FILE_BYTES_MAX - ROOM_BYTES:
                raise Unfit(f"it has {len(text)} bytes, and no room for what a run writes into it")
            task = taskfile.read(text.decode(), naming.name_of(path), item)
        except FileNotFoundError as error:
            # It has moved on since it was seen. Another look finds it there, or finds that it is gone.
            raise Raced(path) from error
        except UnicodeDecodeError:
            self._set_aside(path, "it is not UTF-8 text")
            return None
        except (Unfit, Raced, taskfile.Unreadable) as error:
            self._set_aside(path, str(error))
            return None
        except OSError as error:
            self._set_aside(path, f"it cannot be read: {error.strerror}")
            return None
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
            # Whatever a stranger's text makes go wrong, it is about this file alone.
            self._set_aside(path, f"it cannot be understood: {error}")
            return None
        self._tasks[path], self._stamps[path] = task, stamp
        return task

    def _set_aside(self, path: str, why: str) -> None:
        """A file that is no item, or whose item cannot be read now: neither is handed out."""
        entry = self.known.get(path)
        item = None if entry is None else entry.item
        self._tasks.pop(path, None)
        catalog.put(self.t, Entry(path=path, item=item, stamp=self.seen[path], problem=why))
        if item is not None:
            self._keep_back(item, f"{path}: {why}")

    def _cannot_be_had(self, entry: Entry, why: str) -> None:
        assert entry.item is not None
        catalog.put(self.t, entry.replace(stamp=catalog.UNSEEN, problem=why))
        self._keep_back(entry.item, f"{entry.path}: {why}")

    def _keep_back(self, item: str, reason: str) -> None:
        """Not to be handed out, and its file not to be touched."""
        self._left_alone.add(item)
        state = self.t.state(item)
        if state.item.status == READY:
            self.t.carry_out(state, items.park(self.t.now, state, actor=ACTOR, reason=reason))

    def _take_new(self, paths: list[str]) -> None:
        """Files that nobody knows, the oldest first; but what one depends on before it."""
        floors = [facts.floor for path in paths if (facts := self._tasks[path].facts) is not None]
        if any(floors):
            self.t.run("raise_floor", {"name": "token_floor", "value": max(floors)})
        paths.sort(key=lambda path: (_born(self._tasks[path], self.seen[path]), path))
        for path in _needed_first({path: self._tasks[path] for path in paths}):
            why = self._try(path)
            if why is not None:
                self._set_aside(path, why)

    def _try(self, path: str) -> str | None:
        try:
            self.t.attempt(lambda: self._take(path))
        except DibsError as error:
            return error.message
        except (TypeError, ValueError) as error:
            return f"it cannot be taken: {error}"
        return None

    def _take(self, path: str) -> None:
        """Make an item of what its file says."""
        self._tasks[path] = task = self._without_void_approval(path)
        self._add(task)
        self._move(path, task)
        self._note(path, task.findings)

    def _again(self, path: str) -> None:
        try:
            self.t.attempt(lambda: self._take_again(path))
        except (TypeError, ValueError) as error:
            self._set_aside(path, f"it cannot be taken: {error}")

    def _take_again(self, path: str) -> None:
        """Make of a known item what its file says by now. An edit that is not allowed is left in the file."""
        task = self._tasks[path]
        before = catalog.entry_of(self.t, task.id)
        refused = []
        approved = self.t.approved_draft(self.t.state(task.id).item)
        if self._is_overruled(task):
            tentative.give_way(self.t, task, ACTOR)
        try:
            self.t.attempt(lambda: self._edit(task))
        except DibsError as error:
            refused.append(error.message)
        self._heed_draft(path, task)
        self._move(path, task)
        self._remember_runs(task)
        self._heed_annotations(task, approved)
        self._note(path, (*task.findings, *refused))
        if before is not None and task.facts is None and naming.name_of(before.path) != task.name:
            # Whoever names a file anew may well make another one of the name it had; that is no late save.
            self.t.files("come_back", path=before.path)

    def _is_overruled(self, task: Task) -> bool:
        """Whether the hub's record, which came here with this file, is another than what this clone gave by itself."""
        if self._arbiter is None or not tentative.is_contradicted(self.t, task, self.t.state(task.id)):
            return False
        return any(_owners(record) == _owners(task) for record in self._arbiter.records(task.name))

    def _ask_tokens_sent(self) -> dict[str, int]:
        names = {task.name for task in self._tasks.values()}
        return {} if self._arbiter is None else self._arbiter.tokens_sent(names)

    def _without_void_approval(self, path: str) -> Task:
        """What a file says that nobody knew; but an approval of another draft than it shows is none."""
        task = self._tasks[path]
        facts = task.facts
        approved = None if facts is None or not facts.approved else facts.approval
        if facts is None or approved is None or approved["draft"] is None:
            return task
        shown = next((run.draft for run in task.runs if run.token == approved["token"]), None)
        if digest(shown) == approved["draft"]:
            return task
        if folders.split(path)[0] in folders.BACK:
            self._unapproved.add(path)
        self.t.stale.add(task.id)
        return task.replace(facts=facts.replace(approved=False, approval=None))

    def _heed_draft(self, path: str, task: Task) -> None:
        """A draft is what was submitted. If the file shows another one, it is put back, and whoever has moved the file
        on has approved what does not count; unless it says that another dibs knows better."""
        draft, state, facts = self.t.draft(task.id), self.t.state(task.id), task.facts
        if draft is None or not shows_another_draft(task.runs, draft):
            return
        self.t.stale.add(task.id)
        if state.item.status != PENDING_APPROVAL or (facts is not None and facts.token > state.item.token):
            return
        folder, said = folders.split(path)[0], None
        if facts is not None and facts.approved and facts.approval is not None:
            said = facts.approval["draft"] or ""
        if "approve" not in folders.MOVES[PENDING_APPROVAL].get(folder, ()) and said is None:
            return
        if said != digest(draft.draft):
            self._unapproved.add(path)

    def _note(self, path: str, findings: Sequence[str]) -> None:
        task = self._tasks[path]
        if path in self._copies or not naming.tells_its_item(task):
            self.t.stale.add(task.id)
        entry = Entry(path=path, item=task.id, stamp=self._stamps[path], remark="; ".join(findings) or None)
        catalog.put(self.t, entry)
        if task.foreign_claim is not None:
            catalog.note_claim(self.t, task.id, task.foreign_claim.mark)

    def _add(self, task: Task) -> None:
        t, facts = self.t, task.facts
        born, actor = (t.now, ACTOR) if facts is None else (min(facts.created_at, t.now), facts.created_by)
        waits = [one for one in adding.open_among(t, task.content["depends_on"]) if one.item not in self._pruned()]
        new = NewItem(id=task.id, **task.content)
        step = items.add(born, new, actor=actor, token_floor=t.floor(), blockers=waits)
        t.take(step)
        for one in set(step.item.depends_on) & self._pruned():
            t.files("forget_dependency", item=task.id, needs=one)
        adding.check_circles(t, step.item)
        if step.item.status == READY:
            t.take(queueing.available(born, State(item=step.item), t.settings))
        if facts is not None:
            self._remember(task, facts)

    def _pruned(self) -> set[str]:
        """Items that were put away, by the names of their files: all that depends on them was free to go."""
        if self._put_away is None:
            self._put_away = {taskfile.id_of(name) for name in self.disk.names_in(folders.ARCHIVE)}
        return self._put_away

    def _remember(self, task: Task, facts: Facts) -> None:
        """An item that the index had and lost: what it has behind it. A claim that goes on is yet to be counted."""
        t = self.t
        runs = [run for run in task.runs if run.outcome is not None and run.token <= facts.token]
        for run in runs:
            t.run("insert_run", rows.encode(run))
        state = t.state(task.id)
        token = facts.token - (facts.claim is not None)
        sent_back = task.sent_back(token)
        step = finding.found(
            t.now,
            state,
            status=PENDING_APPROVAL if facts.approved or sent_back is not None else state.item.status,
            actor=ACTOR,
            token=token,
            attempts=facts.attempts - (facts.claim is not None),
            strikes=facts.strikes,
            failures=facts.failures,
            runs=tuple(run.token for run in runs),
        )
        if step is not None:
            t.take(step)
        self._heed_annotations(task, approved=None)
        if facts.approved and facts.approval is not None:
            state = t.state(task.id)
            said, draft = facts.approval, t.draft(task.id)
            step = approving.approve(t.now, state, draft, actor=said["actor"], comment=said["comment"], done=False)
            t.carry_out(state, step)
        elif sent_back is not None:
            self._send_back(task.id, sent_back)

    def _send_back(self, item: str, word: Word) -> None:
        """Whoever takes it next is to read what was said."""
        state = self.t.state(item)
        self.t.carry_out(state, sent_back_with(word, self.t.now, state))

    def _remember_runs(self, task: Task) -> None:
        """Runs that began and ended on another machine between two looks."""
        t, state = self.t, self.t.state(task.id)
        ended = [run for run in task.runs if run.outcome is not None and run.token <= state.item.token]
        runs = [run for run in ended if t.run_of(task.id, run.token) is None]
        if not runs or state.claim is not None or task.facts is None:
            return
        for run in runs:
            t.run("insert_run", rows.encode(run))
        sent_back = task.sent_back(runs[-1].token) if state.item.status == READY else None
        step = finding.found(
            t.now,
            state,
            status=state.item.status if sent_back is None else PENDING_APPROVAL,
            actor=ACTOR,
            needs_approval=state.item.needs_approval or sent_back is not None,
            runs=tuple(run.token for run in runs),
        )
        if step is not None:
            t.take(step)
        if sent_back is not None:
            self._send_back(task.id, sent_back)

    def _heed_annotations(self, task: Task, approved: int | None) -> None:
        """What the file tells of runs that have ended, and the board does not know: somebody annotated them in another
        clone. What the board knows already may be an older text, saved late; lines that the file lacks are written
        again. `approved` is the run whose draft had been approved before."""
        t = self.t
        sessions = {run.token: run.session for run in task.runs}
        known = t.annotations(task.id)
        keys = {one.key for one in known}
        for one in task.annotations:
            run = None if one.key in keys else t.run_of(task.id, one.token)
            if run is None or run.outcome is None or sessions.get(run.token, run.session) != run.session:
                continue
            # More than a run can have is left in the file, and what somebody wrote to a run that was approved.
            with contextlib.suppress(Invalid, ItemNotClaimable):
                state = t.state(task.id)
                t.take(annotating.told(t.now, state, run, one.said, at=one.at, approved=approved, actor=one.actor))
                known.append(one)
                keys.add(one.key)
        if merged(one for one in task.annotations if one.key in keys) != merged(known):
            t.stale.add(task.id)

    def _edit(self, task: Task) -> None:
        item = rows.item(self.t.one("item_by_id", id=task.id) or ())
        changes = {name: task.content[name] for name in EDITABLE if getattr(item, name) != task.content[name]}
        if changes:
            adding.edit(self.t, task.id, changes, ACTOR, missing=True)

    def _move(self, path: str, task: Task) -> None:
        """The verbs that bring the item to where its file lies; what then does not lie right is moved there."""
        folder, agent, _ = folders.split(path)
        if path in self._unapproved:
            folder, agent = folders.FOLDERS[PENDING_APPROVAL], None
        elif folder == folders.HELD and path in self._copies:
            # Nobody holds it: it lies where it was duplicated.
            folder, agent = folders.FOLDERS[READY], None
        theirs = None if task.facts is None else task.facts.claim
        if theirs is not None and (folder != folders.HELD or theirs.agent != agent):
            self.t.stale.add(task.id)  # void: its text says what is not so
            theirs = None
        if folder in folders.ENDS:
            agent = self._claimant(path, task)
        Placing(self.t, task, folder, agent, theirs, self._tokens_sent).place()
        state = self.t.state(task.id)
        holder = None if state.claim is None else state.claim.agent
        is_elsewhere = folders.folder_of(state.item.status, holder) != path.rpartition("/")[0]
        if is_elsewhere or not _tells(task, state):
            self.t.stale.add(task.id)

    def _claimant(self, path: str, task: Task) -> str | None:
        """The agent whose program has taken and ended the item since somebody last looked here, as that program tells
        by a block that was not there then. What it did before dibs came is no claim of this board's, nor what another
        dibs or clone has counted."""
        told = task.foreign_claim
        if told is None or catalog.claim_told(self.t, task.id) == told.mark:
            return None
        token = 0 if task.facts is None else task.facts.token
        if catalog.entry_of(self.t, task.id) is None:
            is_known = not self.known or token > 0
        else:
            is_known = token > self.t.state(task.id).item.token
        if is_known or told.went_to not in (None, folders.split(path)[0]):
            return None
        is_from_elsewhere = self._arbiter is not None and path in self._arbiter.lies_so([path])
        return None if is_from_elsewhere else told.agent

    def _miss(self, entry: Entry) -> None:
        """An item without a file. One that is over may go; one that somebody holds is waited for a little."""
        t = self.t
        assert entry.item is not None
        why = self.unfit.get(entry.path) or self.unfit.get(entry.path.rpartition("/")[0])
        why = why or self.unfit.get(entry.path.partition("/")[0])
        if why is not None:
            # Not away, but not to be had: its folder is a link now, for instance.
            self._cannot_be_had(entry, f"it {why}, or its folder")
            return
        state = t.state(entry.item)
        gone_at = entry.gone_at or t.now
        if state.item.status == IN_PROGRESS and t.now - gone_at < GONE_SECONDS * 1000:
            catalog.put(t, entry.replace(gone_at=gone_at))
            return
        catalog.forget(t, entry)
        self._left_alone.add(entry.item)
        if state.item.status not in ENDED:
            t.carry_out(state, ending.cancel(t.now, state, actor=ACTOR, reason="its file was taken away"))


def _needed_first(tasks: Mapping[str, Task]) -> list[str]:
    """The paths in their order, but each behind those of the items that it depends on. In a circle somebody is first,
    and is refused for what it depends on."""
    at = {task.id: path for path, task in tasks.items()}
    found: dict[str, None] = {}
    begun: set[str] = set()
    for first in tasks:
        waiting = [first]
        while waiting:
            path = waiting[-1]
            needed = [at[id] for id in tasks[path].content["depends_on"] if id in at]
            ahead = [one for one in needed if one not in begun] if path not in begun else []
            begun.add(path)
            waiting += reversed(ahead)
            if not ahead:
                found.setdefault(waiting.pop())
    return list(found)


def _owners(task: Task) -> dict[int, str]:
    """By token, whose each run is."""
    claim = None if task.facts is None else task.facts.claim
    return {run.token: run.session for run in task.runs} | ({} if claim is None else {claim.token: claim.session})


def _tells(task: Task, state: State) -> bool:
    """Whether the file tells of the tokens that were given, and who has the latest."""
    facts, claim = task.facts, state.claim
    if facts is None:
        return state.item.attempts == 0
    told = None if facts.claim is None else (facts.claim.token, facts.claim.session)
    return facts.token >= state.item.token and told == (None if claim is None else (claim.token, claim.session))


def _is_open(entry: Entry) -> bool:
    """Whether it is to be looked at again though nobody touched it."""
    return entry.problem is not None or entry.remark is not None


def _born(task: Task, stamp: Stamp) -> int:
    return task.facts.created_at if task.facts is not None else stamp[2] // 1_000_000
