"""How the run of a command ends: decided by its exit code, its output, and the files it left."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat

from dibs import check
from dibs.errors import Invalid
from dibs.sdk.claim_handle import storable
from dibs.value import Value
from dibs.worker.output import as_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dibs.sdk.claim_handle import ClaimHandle
    from dibs.worker.output import Output

DONE = 0
SUBMIT = 10
RELEASE = 75
#: The exit codes of a shell for a missing command, and of `timeout` for one that took too long.
NOT_FOUND = 127
TIMED_OUT = 124
BY_SIGNAL = 128
#: The cost in the output of `claude -p --output-format json`.
COST_FIELDS = ["total_cost_usd", "usage", "modelUsage", "duration_ms", "duration_api_ms", "num_turns", "session_id"]


class Verdict(Value):
    """`verb` ends the claim; `exit_code` is that of `dibs exec`. A release `parks` the item if only a person can
    remove the obstacle."""

    verb: str
    exit_code: int
    text: str
    draft: str = ""
    cost: dict[str, Any] = {}
    links: dict[str, Any] = {}
    parks: bool = False

    def apply(self, claim: ClaimHandle) -> None:
        record: dict[str, Any] = {"cost": self.cost, "links": self.links}
        if self.verb == "done":
            claim.done(self.text or None, **record)
        elif self.verb == "submit":
            claim.submit(self.draft, self.text or None, **record)
        elif self.verb == "release":
            claim.release(self.text, park=self.parks)
        else:
            claim.fail(self.text, **record)


class Exchange:
    """A folder with the files that a command is given, and those that it may write."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        names = ("item.json", "claim", "approved", "previous.json", "draft", "cost.json", "links.json")
        self._paths = [os.path.join(folder, name) for name in names]
        self.item, self.claim, self.approved, self.previous, self.draft, self.cost, self.links = self._paths

    def remove(self) -> None:
        """Remove these files and nothing else. A folder in which the command left other files is not removed."""
        for remove, path in (*((os.unlink, path) for path in self._paths), (os.rmdir, self.folder)):
            try:
                remove(path)
            except OSError:
                pass


def failed(reason: str, exit_code: int) -> Verdict:
    return Verdict(verb="fail", exit_code=exit_code, text=_note(reason))


def released(reason: str, exit_code: int = RELEASE) -> Verdict:
    return Verdict(verb="release", exit_code=exit_code, text=_note(reason))


def judge(exit_code: int, output: Output, files: Exchange) -> Verdict:
    """`exit_code` is negative for a signal, as in `subprocess`."""
    cost, result = _reported_cost(output.stdout.whole)
    cost_file, cost_problem = _json_file(files.cost, "cost")
    links, links_problem = _json_file(files.links, "links")
    problems = [one for one in (cost_problem, links_problem) if one]
    record: dict[str, Any] = {"cost": cost_file or cost, "links": links}
    note = _note("\n".join([result if result is not None else output.both.text, *problems]))
    if exit_code == DONE:
        return Verdict(verb="done", exit_code=DONE, text=note, **record)
    if exit_code == SUBMIT:
        draft, problem = _draft(files.draft)
        if not problem:
            return Verdict(verb="submit", exit_code=SUBMIT, text=note, draft=draft, **record)
        reason = f"the command exited with {SUBMIT}, to submit a draft, but {problem}"
        return Verdict(verb="fail", exit_code=SUBMIT, text=reason, **record)
    last = "\n".join([output.both.last_lines if result is None else result, *problems]).strip()
    if exit_code == RELEASE:
        return Verdict(verb="release", exit_code=RELEASE, text=_note(last or "for later"))
    what = f"exit code {exit_code}" if exit_code > 0 else f"ended by {_signal(-exit_code)}"
    code = exit_code if exit_code > 0 else BY_SIGNAL - exit_code
    return Verdict(verb="fail", exit_code=code, text=_note(f"{what}: {last}" if last else what), **record)


def _reported_cost(stdout: bytes | None) -> tuple[dict[str, Any], str | None]:
    """The cost and the result from a JSON object that is all of stdout, or its last line."""
    for text in (stdout, stdout.rstrip().rpartition(b"\n")[2]) if stdout else ():
        if not text.lstrip().startswith(b"{"):
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if "total_cost_usd" in found:
            result = found.get("result")
            try:
                cost = check.json_object(
                    {name: found[name] for name in COST_FIELDS if found.get(name) is not None}, "cost"
                )
            except Invalid:
                cost = {}
            return cost, result if isinstance(result, str) else None
    return {}, None


def _json_file(path: str, field: str) -> tuple[dict[str, Any], str]:
    """The content of an optional file, or its problem, which does not fail the run."""
    data, problem = _read(path, check.JSON_BYTES_MAX)
    if problem or not data.strip():
        return {}, f"dibs: the {field} file {problem}" if problem else ""
    try:
        return check.json_object(json.loads(data), field), ""
    except (ValueError, RecursionError, Invalid) as error:
        return {}, f"dibs: the {field} file is not a JSON object: {error}"


def _draft(path: str) -> tuple[str, str]:
    data, problem = _read(path, check.TEXT_BYTES_MAX)
    draft = as_text(data)
    if not problem and not draft.strip():
        problem = "is empty"
    elif not problem and len(draft.encode()) > check.TEXT_BYTES_MAX:
        problem = "is not text"
    return draft, f"the draft in DIBS_DRAFT_FILE {problem}" if problem else ""


def _read(path: str, size_max: int) -> tuple[bytes, str]:
    """The content of a file, empty if there is none; or a problem.

    Only a regular file of the command is read: a link could lead to a file that the worker may read and the command may
    not.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b"", ""
    except OSError as error:
        return b"", f"cannot be read: {'it is a link' if error.errno == errno.ELOOP else error.strerror}"
    problem = _unfit(os.fstat(descriptor))
    if problem:
        os.close(descriptor)
        return b"", f"cannot be read: {problem}"
    with open(descriptor, "rb") as file:
        data = file.read(size_max + 1)
    return (data, "") if len(data) <= size_max else (b"", f"has more than {size_max} bytes")


def _unfit(found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "it is a folder" if stat.S_ISDIR(found.st_mode) else "it is not a regular file"
    if found.st_nlink > 1:
        return "it is a hard link to another file"
    if found.st_uid != os.geteuid():
        return f"it belongs to uid {found.st_uid}, not to the user who runs the worker"
    return ""


def _note(text: str) -> str:
    """The text, cut to the size of a note."""
    return storable(text).encode()[: check.NOTE_BYTES_MAX].decode("utf-8", "ignore")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
