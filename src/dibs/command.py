"""A command as a handler: any program works on a claimed item, and how it exits is how the run ends.

    worker = Worker(board, agent="coder")
    worker.handles("bug")(Command(["fix", "{id}"]))

The item is on its stdin and in a file, as JSON. It runs in a process group of its own, which is ended as a whole: when
it is over, when it takes too long, when its claim is lost, and, by the guardian, when the worker is killed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile

from dibs import config, jsontext, wire
from dibs.errors import DibsError, Invalid
from dibs.group import GRACE_SECONDS, Group, Guard
from dibs.handle import LOSSES
from dibs.heart import clock
from dibs.output import Output
from dibs.verdict import DONE, NOT_FOUND, NOT_RUN, RELEASE, SUBMIT, TIMED_OUT, Files, Verdict, failed, judge, released

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.handle import ClaimHandle

    Show = Callable[[ClaimHandle, str], None]

ENV_ITEM = "DIBS_ITEM"
ENV_ITEM_FILE = "DIBS_ITEM_FILE"
ENV_DRAFT_FILE = "DIBS_DRAFT_FILE"
ENV_COST_FILE = "DIBS_COST_FILE"
ENV_LINKS_FILE = "DIBS_LINKS_FILE"
#: How long it may take to notice that a claim is lost.
LOOK_SECONDS = 0.25
#: The board ends a claim when the item's time is over, and its holder gives it up before that: the command is ended
#: earlier by this share of the time, and by no more than this, so that it can still be told why.
MARGIN_SHARE = 0.2
MARGIN_SECONDS_MAX = 15.0
#: How only its holder ends a claim, and what a script is told if the command did so and exited with 0.
OWN_ENDS = {"done": DONE, "submitted": SUBMIT, "released": RELEASE, "failed": 1}
_WORDS = re.compile(r"\{(id|title)\}")


class Command:
    def __init__(
        self,
        arguments: Sequence[str],
        *,
        timeout_seconds: float | None = None,
        environment: Mapping[str, str] | None = None,
        show: Show | None = None,
    ) -> None:
        """`{id}` and `{title}` in the arguments are the item's. `timeout_seconds`: so long it may take, or as long as
        the item says, whichever is less. `environment` is added to this process's own. `show` hears each line."""
        if not arguments or not all(isinstance(one, str) and "\0" not in one for one in arguments):
            raise Invalid("a command is one or more words", field="command")
        self.arguments = tuple(arguments)
        self.timeout_seconds = timeout_seconds
        self._environment = dict(environment or {})
        self._show = show
        self._guard = Guard()
        self._draining_at: float | None = None

    def __call__(self, claim: ClaimHandle) -> None:
        self.run(claim)

    def run(self, claim: ClaimHandle) -> Verdict:
        """Run it, and end the claim as its verdict says; raises if the claim is lost before that."""
        folder = os.path.abspath(tempfile.mkdtemp(prefix="dibs-"))
        files = Files(folder)
        try:
            verdict = self._verdict(claim, files)
        finally:
            _remove(files, folder)
        return _carried_out(verdict, claim)

    def drain(self, seconds: float) -> None:
        """Whatever is not finished by then is ended, and its item released."""
        self._draining_at = clock() + max(0.0, seconds - GRACE_SECONDS)

    def close(self) -> None:
        self._guard.close()

    def _verdict(self, claim: ClaimHandle, files: Files) -> Verdict:
        _write(files.item, jsontext.line(wire.encode(claim.item)) + "\n")
        arguments = [_filled(argument, claim) for argument in self.arguments]
        environment = {**os.environ, **self._environment, **_told(claim, files)}
        if shutil.which(arguments[0], path=environment.get("PATH")) is None:
            return failed(f"there is no command {arguments[0]!r} that can be run here", NOT_FOUND)
        began = clock()
        try:
            group = Group(arguments, environment, files.item, self._guard)
        except OSError as error:
            return failed(f"{arguments[0]!r} could not be started: {error.strerror or error}", NOT_RUN)
        show = self._show
        assert group.process.stdout is not None
        assert group.process.stderr is not None
        output = Output(
            group.process.stdout, group.process.stderr, None if show is None else lambda line: show(claim, line)
        )
        try:
            exit_code, cut = self._watch(claim, group, began)
        finally:
            group.end()
            output.finish()
        if cut is not None:
            last = output.both.last_lines
            return cut.replace(text=f"{cut.text}; the last it said: {last}" if last else cut.text)
        assert exit_code is not None
        return judge(exit_code, output, files)

    def _watch(self, claim: ClaimHandle, group: Group, began: float) -> tuple[int | None, Verdict | None]:
        """How it exited, or how it is cut short."""
        allowed = self._allowed_seconds(claim.item.timeout_seconds)
        while True:
            exit_code = group.wait(LOOK_SECONDS)
            if exit_code is not None:
                return exit_code, None
            if claim.lost.is_set() and _ended_inside(claim.lost_by) is None:
                lost_by = claim.lost_by
                group.end()
                if lost_by is not None and claim.lost.is_set():
                    raise lost_by
                return None, released("the claim was lost for a while")  # and recovered since
            now = clock()
            if now > began + allowed:
                return None, failed(f"timed out after {allowed:g}s", TIMED_OUT)
            if self._draining_at is not None and now > self._draining_at:
                return None, released("the worker stopped before it was finished")

    def _allowed_seconds(self, of_item: float) -> float:
        by_item = of_item - min(MARGIN_SECONDS_MAX, MARGIN_SHARE * of_item)
        return by_item if self.timeout_seconds is None else min(self.timeout_seconds, by_item)


def _carried_out(verdict: Verdict, claim: ClaimHandle) -> Verdict:
    how = _ended_inside(claim.lost_by)
    if how is None or claim.outcome is not None:
        try:
            verdict.carry_out(claim)
            return verdict
        except LOSSES as error:
            how = _ended_inside(error)
            if how is None or claim.outcome is not None:
                raise
    claim.outcome = how
    return verdict.replace(exit_code=verdict.exit_code or OWN_ENDS[how])


def _ended_inside(error: DibsError | None) -> str | None:
    """How the command itself ended its claim, with `dibs done` for instance, if that is why it is gone."""
    how = None if error is None else error.facts.get("how")
    return how if how in OWN_ENDS else None


def _filled(argument: str, claim: ClaimHandle) -> str:
    """In one pass: a title may itself hold such a word."""
    words = {"id": claim.item.id, "title": claim.item.title}
    return _WORDS.sub(lambda found: words[found[1]], argument)


def _told(claim: ClaimHandle, files: Files) -> dict[str, str]:
    return {
        ENV_ITEM: claim.item.id,
        config.ENV_TOKEN: str(claim.token),
        config.ENV_SESSION: claim.session.id,
        config.ENV_AGENT: claim.session.agent,
        ENV_ITEM_FILE: files.item,
        ENV_DRAFT_FILE: files.draft,
        ENV_COST_FILE: files.cost,
        ENV_LINKS_FILE: files.links,
    }


def _write(path: str, text: str) -> None:
    with open(path, "x", encoding="ascii") as file:
        file.write(text)


def _remove(files: Files, folder: str) -> None:
    """What is named here and nothing else: a folder in which a command left more stays where it is."""
    for path in (files.item, files.draft, files.cost, files.links):
        try:
            os.unlink(path)
        except OSError:
            pass
    try:
        os.rmdir(folder)
    except OSError:
        pass
