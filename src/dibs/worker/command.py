"""A command as a handler: any program works on a claimed item, and its exit code decides how the run ends.

    worker = Worker(board, agent="coder")
    worker.handles("bug")(Command(["fix", "{id}"]))

The command gets the item as JSON, on its stdin and in a file. It runs in a process group of its own, which is ended as
a whole: when the command exits, times out or loses its claim, and, by the guardian, when the worker is killed. If the
command cannot be started, the item is released.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading

from dibs import config
from dibs.errors import DibsError, Invalid
from dibs.sdk.claim_handle import LOSSES
from dibs.sdk.heartbeat import clock
from dibs.system import git
from dibs.text import json_text, wire
from dibs.worker import redaction
from dibs.worker.handler_loop import CannotBegin
from dibs.worker.output import Output
from dibs.worker.process_group import Guard, ProcessGroup
from dibs.worker.verdict import DONE, NOT_FOUND, RELEASE, SUBMIT, TIMED_OUT, Exchange, Verdict, failed, judge, released

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.sdk.claim_handle import ClaimHandle
    from dibs.worker.worktree import Worktree, Worktrees

    Show = Callable[[ClaimHandle, str], None]

ENV_ITEM = "DIBS_ITEM"
ENV_ITEM_FILE = "DIBS_ITEM_FILE"
ENV_APPROVED_FILE = "DIBS_APPROVED_FILE"
ENV_PREVIOUS_FILE = "DIBS_PREVIOUS_FILE"
ENV_DRAFT_FILE = "DIBS_DRAFT_FILE"
ENV_COST_FILE = "DIBS_COST_FILE"
ENV_LINKS_FILE = "DIBS_LINKS_FILE"
ENV_WORKTREE = "DIBS_WORKTREE"
ENV_BRANCH = "DIBS_BRANCH"
ENV_BASE = "DIBS_BASE"
#: Set for some runs only.
OF_ANOTHER_RUN = (ENV_APPROVED_FILE, ENV_PREVIOUS_FILE, ENV_WORKTREE, ENV_BRANCH, ENV_BASE)
#: How often a running command is checked for its timeout and for the loss of its claim.
LOOK_SECONDS = 0.25
#: The command is ended before the claim reaches the item's timeout, so that the run can still be failed with a reason:
#: earlier by MARGIN_SHARE of the timeout, but by at most MARGIN_SECONDS_MAX.
MARGIN_SHARE = 0.2
MARGIN_SECONDS_MAX = 15.0
#: How long the end of a claim waits for what the next holder is told.
HANDOVER_SECONDS = 3.0
#: How long the end of a claim waits for a command that is being started: a file system can hang.
START_SECONDS = 10.0
#: How the claim of a command that timed out may end.
ON_TIMEOUT = ("fail", "release")
#: The outcomes by which a command can end its own claim, and the exit code of `dibs exec` if the command exits with 0.
OWN_ENDS = {"done": DONE, "submitted": SUBMIT, "released": RELEASE, "failed": 1}
#: The fields of a verdict with what the command wrote.
LEFT_BY_COMMAND = ("text", "draft", "cost", "links")
STOPPED = "the worker stopped"
_PLACEHOLDERS = re.compile(r"\{(id|title)\}")


class Command:
    def __init__(
        self,
        arguments: Sequence[str],
        *,
        timeout_seconds: float | None = None,
        on_timeout: str = "fail",
        environment: Mapping[str, str] | None = None,
        show: Show | None = None,
        worktrees: Worktrees | None = None,
    ) -> None:
        """`{id}` and `{title}` in the arguments are replaced by those of the item. The timeout is `timeout_seconds` or
        that of the item, whichever is less; `on_timeout` is fail or release. `environment` is added to that of this
        process. `show` is called with each line of output. With `worktrees`, the command runs in a worktree of the
        item."""
        if not arguments or not all(isinstance(one, str) and "\0" not in one for one in arguments):
            raise Invalid("a command needs one or more words", field="command")
        if on_timeout not in ON_TIMEOUT:
            raise Invalid(f"unknown on_timeout {on_timeout!r}; choose {' or '.join(ON_TIMEOUT)}", field="on_timeout")
        self.arguments = tuple(arguments)
        self.timeout_seconds = timeout_seconds
        self.on_timeout = on_timeout
        self._environment = dict(environment or {})
        self.show = show
        self.worktrees = worktrees
        self._guard = Guard()
        self._lock = threading.Lock()
        self._calls: dict[ClaimHandle, _Call] = {}
        self._abandoned: set[ClaimHandle] = set()

    def __call__(self, claim: ClaimHandle) -> None:
        self.run(claim)

    @property
    def is_installed(self) -> bool:
        """Whether the program exists. True if its name depends on the item, and so cannot be checked yet."""
        return _PLACEHOLDERS.search(self.arguments[0]) is not None or self._is_program(self.arguments[0])

    def run(self, claim: ClaimHandle) -> Verdict:
        """Run the command, and end the claim by its verdict. Raises if the claim is lost before that, or if the command
        cannot be started, which leaves the claim as it was."""
        try:
            return self._run(claim, None) if self.worktrees is None else self._run_in_worktree(claim, self.worktrees)
        finally:
            with self._lock:
                self._calls.pop(claim, None)
                self._abandoned.discard(claim)

    def abandon(self, claim: ClaimHandle) -> None:
        """End the processes of this claim. A worker does that before it ends the claim early."""
        with self._lock:
            self._abandoned.add(claim)
            call = self._calls.get(claim)
        if call is None:
            return  # it has not begun, and will not
        call.has_begun.wait(START_SECONDS)
        if call.group is not None:
            call.group.end()
            if self.worktrees is not None:
                call.is_over.wait(HANDOVER_SECONDS)

    def close(self) -> None:
        self._guard.close()

    def _run_in_worktree(self, claim: ClaimHandle, worktrees: Worktrees) -> Verdict:
        from dibs.worker.worktree import Occupied

        try:
            tree = worktrees.enter(claim, lambda: claim.lost.is_set() or claim in self._abandoned)
        except CannotBegin:
            claim.check()  # a lost claim is no fault of this machine
            raise
        except Occupied as error:
            # Parked, because `next` would give the item to this worker again, before all others.
            return _apply(released(str(error)).replace(parks=True), claim)
        try:
            claim.check()  # a large checkout takes long
            return released(STOPPED) if claim in self._abandoned else self._run(claim, tree)
        finally:
            tree.leave(claim.outcome)

    def _run(self, claim: ClaimHandle, tree: Worktree | None) -> Verdict:
        files = self._exchange(claim, tree)
        try:
            verdict = self._verdict(claim, files, tree)
            if claim in self._abandoned:
                return verdict  # the caller of `abandon` ends the claim itself
            # The run may be another than the one that began here, if the claim was recovered.
            links = verdict.links if tree is None else tree.links | verdict.links
            return _apply(verdict.replace(links=links), claim)
        finally:
            files.remove()

    def _exchange(self, claim: ClaimHandle, tree: Worktree | None) -> Exchange:
        try:
            files = Exchange(os.path.abspath(tempfile.mkdtemp(prefix="dibs-")))
        except OSError as error:
            raise self._cannot_begin(error) from error
        try:
            _write(files.item, json_text.line(wire.encode(claim.item)) + "\n")
            _write(files.claim, f"{claim.token}\n")
            claim.token_file = files.claim
            if claim.approved_draft is not None:
                _write(files.approved, claim.approved_draft)
            if claim.previous is not None:
                previous = wire.encode(claim.previous)
                if tree is not None and tree.previous is not None:
                    previous["worktree"] = tree.previous
                _write(files.previous, json_text.line(previous) + "\n")
        except OSError as error:
            files.remove()
            raise self._cannot_begin(error) from error
        return files

    def _verdict(self, claim: ClaimHandle, files: Exchange, tree: Worktree | None) -> Verdict:
        arguments = [_filled_in(argument, claim) for argument in self.arguments]
        program = arguments[0]
        if not self._is_program(program):
            missing = f"there is no command {program!r} that can be run here"
            if program == self.arguments[0]:
                raise CannotBegin(missing)
            return failed(missing, NOT_FOUND)
        began = clock()
        environment = self._environment_for(claim, files, tree)
        call, output = _Call(), None
        with self._lock:
            if claim in self._abandoned:
                return released(STOPPED)
            self._calls[claim] = call
        try:
            group = call.group = self._started(claim, arguments, environment, files, tree)
        finally:
            call.has_begun.set()
        secrets = redaction.of_worker(os.environ, environment, url=getattr(claim.session.board.store, "url", None))
        try:
            output = self._output(claim, group, tree, secrets)
            exit_code, early = self._watch(claim, group, began)
        finally:
            group.end()
            if output is not None:
                output.finish()
                if tree is not None:
                    tree.tell_end(claim, output.both.last_lines)
            call.is_over.set()
        if (why := group.start_error(output.both.text)) is not None:
            raise CannotBegin(f"{program!r} could not be started: {why}")
        if early is not None:
            last = output.both.last_lines
            return early.replace(text=f"{early.text}; its last output: {last}" if last else early.text)
        assert exit_code is not None
        verdict = judge(exit_code, output, files)
        # Also of files, and of texts in JSON, where a secret can be written in another way.
        return verdict.replace(**{name: secrets.value(getattr(verdict, name)) for name in LEFT_BY_COMMAND})

    def _started(
        self,
        claim: ClaimHandle,
        arguments: list[str],
        environment: dict[str, str],
        files: Exchange,
        tree: Worktree | None,
    ) -> ProcessGroup:
        try:
            if tree is None:
                return ProcessGroup(arguments, environment, files.item, self._guard)
            tree.tell_begin(claim)
            return ProcessGroup(
                arguments, environment, files.item, self._guard, folder=tree.folder, announce=tree.begun
            )
        except OSError as error:
            raise self._cannot_begin(error) from error

    def _output(
        self, claim: ClaimHandle, group: ProcessGroup, tree: Worktree | None, secrets: redaction.Redaction
    ) -> Output:
        shows: list[Callable[[str], None]] = [] if tree is None else [tree.output.add]
        if (show := self.show) is not None:
            shows.append(lambda line: show(claim, line))
        assert group.process.stdout is not None
        assert group.process.stderr is not None
        try:
            return Output(group.process.stdout, group.process.stderr, secrets, *shows)
        except RuntimeError as error:  # the system has no thread left
            group.process.stdout.close()
            group.process.stderr.close()
            raise self._cannot_begin(error) from error

    def _watch(self, claim: ClaimHandle, group: ProcessGroup, began: float) -> tuple[int | None, Verdict | None]:
        """The exit code, or the verdict of a command that is ended early."""
        allowed = self._allowed_seconds(claim.item.timeout_seconds)
        while True:
            exit_code = group.wait(0 if claim in self._abandoned else LOOK_SECONDS)
            if claim in self._abandoned:
                return None, released(STOPPED)
            if exit_code is not None:
                return exit_code, None
            if claim.lost.is_set() and _ended_by_command(claim.lost_by) is None:
                lost_by = claim.lost_by
                group.end()
                if lost_by is not None and claim.lost.is_set():
                    raise lost_by
                return None, released("the claim was lost for a while")  # and has been recovered since
            if clock() > began + allowed:
                late = f"timed out after {allowed:g}s"
                return None, failed(late, TIMED_OUT) if self.on_timeout == "fail" else released(late, TIMED_OUT)

    def _allowed_seconds(self, of_item: float) -> float:
        by_item = of_item - min(MARGIN_SECONDS_MAX, MARGIN_SHARE * of_item)
        return by_item if self.timeout_seconds is None else min(self.timeout_seconds, by_item)

    def _is_program(self, name: str) -> bool:
        return shutil.which(name, path=self._environment.get("PATH", os.environ.get("PATH"))) is not None

    def _cannot_begin(self, error: Exception) -> CannotBegin:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        return CannotBegin(f"{self.arguments[0]!r} could not be started: {why}")

    def _environment_for(self, claim: ClaimHandle, files: Exchange, tree: Worktree | None) -> dict[str, str]:
        # If this worker is itself the command of another worker, its variables are about that worker's item.
        own = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER_RUN}
        if tree is not None:
            own = {name: value for name, value in own.items() if name not in git.FOREIGN}
            own |= {ENV_WORKTREE: tree.record.path, ENV_BRANCH: tree.record.branch, ENV_BASE: tree.record.base}
        return {**own, **self._environment, **_variables(claim, files)}


class _Call:
    """A command that is being started, or runs. `has_begun` is set once its group is known, or could not be started;
    `is_over` once the next holder has been told about its work."""

    def __init__(self) -> None:
        self.group: ProcessGroup | None = None
        self.has_begun, self.is_over = threading.Event(), threading.Event()


def _apply(verdict: Verdict, claim: ClaimHandle) -> Verdict:
    how = _ended_by_command(claim.lost_by)
    if how is None or claim.outcome is not None:
        try:
            verdict.apply(claim)
            return verdict
        except LOSSES as error:
            how = _ended_by_command(error)
            if how is None or claim.outcome is not None:
                raise
    claim.outcome = how
    return verdict.replace(exit_code=verdict.exit_code or OWN_ENDS[how])


def _ended_by_command(error: DibsError | None) -> str | None:
    """The outcome, if the claim is gone because the command ended it, with `dibs done` for instance."""
    how = None if error is None else error.facts.get("how")
    return how if how in OWN_ENDS else None


def _filled_in(argument: str, claim: ClaimHandle) -> str:
    """In one pass, because a title may contain `{id}`."""
    values = {"id": claim.item.id, "title": claim.item.title}
    return _PLACEHOLDERS.sub(lambda found: values[found[1]], argument)


def _variables(claim: ClaimHandle, files: Exchange) -> dict[str, str]:
    variables = {
        ENV_ITEM: claim.item.id,
        config.ENV_TOKEN: str(claim.token),
        config.ENV_CLAIM_FILE: files.claim,
        config.ENV_SESSION: claim.session.id,
        config.ENV_AGENT: claim.session.agent,
        ENV_ITEM_FILE: files.item,
        ENV_DRAFT_FILE: files.draft,
        ENV_COST_FILE: files.cost,
        ENV_LINKS_FILE: files.links,
    }
    if claim.approved_draft is not None:
        variables[ENV_APPROVED_FILE] = files.approved
    if claim.previous is not None:
        variables[ENV_PREVIOUS_FILE] = files.previous
    return variables


def _write(path: str, text: str) -> None:
    with open(path, "xb") as file:
        file.write(text.encode())
