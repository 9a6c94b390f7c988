"""How a command's run ends: from its exit code, and from what it said and left in files."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat

from dibs import check
from dibs.errors import Invalid
from dibs.sdk.claim_handle import keepable
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
#: What a shell says of a command that is not there, `timeout` of one that took too long.
NOT_FOUND = 127
TIMED_OUT = 124
BY_SIGNAL = 128
#: What `claude -p --output-format json` tells about itself.
COST_FIELDS = (*("total_cost_usd", "usage", "modelUsage", "duration_ms", "duration_api_ms", "num_turns", "session_id"),)


class Verdict(Value):
    """`verb` ends the claim; `exit_code` is what a script is told."""

    verb: str
    exit_code: int
    text: str
    draft: str = ""
    cost: dict[str, Any] = {}
    links: dict[str, Any] = {}

    def carry_out(self, claim: ClaimHandle) -> None:
        said: dict[str, Any] = {"cost": self.cost, "links": self.links}
        if self.verb == "done":
            claim.done(self.text or None, **said)
        elif self.verb == "submit":
            claim.submit(self.draft, self.text or None, **said)
        elif self.verb == "release":
            claim.release(self.text)
        else:
            claim.fail(self.text, **said)


class Files:
    """What a command is given, and what it may leave beside its output, each in a file of this folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.item, self.claim, self.approved, self.previous = (
            os.path.join(folder, name) for name in ("item.json", "claim", "approved", "previous.json")
        )
        self.draft, self.cost, self.links = (
            os.path.join(folder, name) for name in ("draft", "cost.json", "links.json")
        )

    def remove(self) -> None:
        """What is named here and nothing else: a folder in which a command left more stays where it is."""
        for path in (self.item, self.claim, self.approved, self.previous, self.draft, self.cost, self.links):
            try:
                os.unlink(path)
            except OSError:
                pass
        try:
            os.rmdir(self.folder)
        except OSError:
            pass


def failed(reason: str, exit_code: int) -> Verdict:
    return Verdict(verb="fail", exit_code=exit_code, text=_noted(reason))


def released(reason: str, exit_code: int = RELEASE) -> Verdict:
    return Verdict(verb="release", exit_code=exit_code, text=_noted(reason))


def judge(exit_code: int, output: Output, files: Files) -> Verdict:
    """`exit_code` as Python tells it: below zero for a signal."""
    cost, result = _told(output.stdout.whole)
    cost_file, complaint = _object_in(files.cost, "cost")
    links, other = _object_in(files.links, "links")
    complaints = [one for one in (complaint, other) if one]
    said: dict[str, Any] = {"cost": cost_file or cost, "links": links}
    note = _noted("\n".join([result if result is not None else output.both.text, *complaints]))
    if exit_code == DONE:
        return Verdict(verb="done", exit_code=DONE, text=note, **said)
    if exit_code == SUBMIT:
        draft, complaint = _draft(files.draft)
        if not complaint:
            return Verdict(verb="submit", exit_code=SUBMIT, text=note, draft=draft, **said)
        reason = f"it exited with {SUBMIT}, to submit, but {complaint}"
        return Verdict(verb="fail", exit_code=SUBMIT, text=reason, **said)
    last = "\n".join([output.both.last_lines if result is None else result, *complaints]).strip()
    if exit_code == RELEASE:
        return Verdict(verb="release", exit_code=RELEASE, text=_noted(last or "for later"))
    what = f"exit code {exit_code}" if exit_code > 0 else f"ended by {_signal(-exit_code)}"
    code = exit_code if exit_code > 0 else BY_SIGNAL - exit_code
    return Verdict(verb="fail", exit_code=code, text=_noted(f"{what}: {last}" if last else what), **said)


def _told(stdout: bytes | None) -> tuple[dict[str, Any], str | None]:
    """The cost and the result in the JSON object that is all of stdout, or its last line."""
    for text in (stdout, stdout.rstrip().rpartition(b"\n")[2]) if stdout else ():
        if not text.lstrip().startswith(b"{"):
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if "total_cost_usd" in found:
            cost = {name: found[name] for name in COST_FIELDS if found.get(name) is not None}
            result = found.get("result")
            return _checked(cost), result if isinstance(result, str) else None
    return {}, None


def _checked(cost: dict[str, Any]) -> dict[str, Any]:
    try:
        return check.json_object(cost, "cost")
    except Invalid:
        return {}


def _object_in(path: str, field: str) -> tuple[dict[str, Any], str]:
    """What a file says that need not be there, or what is wrong with it: the work is not lost over that."""
    data, complaint = _read(path, check.JSON_BYTES_MAX)
    if complaint or not data.strip():
        return {}, f"dibs: the {field} file {complaint}" if complaint else ""
    try:
        return check.json_object(json.loads(data), field), ""
    except (ValueError, RecursionError, Invalid) as error:
        return {}, f"dibs: the {field} file is no JSON object: {error}"


def _draft(path: str) -> tuple[str, str]:
    data, complaint = _read(path, check.TEXT_BYTES_MAX)
    draft = as_text(data)
    if not complaint and not draft.strip():
        complaint = "is empty"
    elif not complaint and len(draft.encode()) > check.TEXT_BYTES_MAX:
        complaint = "is no text"
    return draft, f"the draft in DIBS_DRAFT_FILE {complaint}" if complaint else ""


def _read(path: str, size_max: int) -> tuple[bytes, str]:
    """What is in a file, nothing if it is not there; or a complaint.

    Only what the command wrote there: a link would lead to what the worker may read and the command perhaps may not.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b"", ""
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        return b"", "cannot be read: it is a link" if is_link else f"cannot be read: {error.strerror}"
    complaint = _unfit(os.fstat(descriptor))
    if complaint:
        os.close(descriptor)
        return b"", f"cannot be read: {complaint}"
    with open(descriptor, "rb") as file:
        data = file.read(size_max + 1)
    return (data, "") if len(data) <= size_max else (b"", f"has more than {size_max} bytes")


def _unfit(found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "it is a folder" if stat.S_ISDIR(found.st_mode) else "it is no regular file"
    if found.st_nlink > 1:
        return "it has a second name"
    if found.st_uid != os.geteuid():
        return f"it belongs to uid {found.st_uid}, and not to the user who runs the worker"
    return ""


def _noted(text: str) -> str:
    """A text that fits into a note, as every store can keep it."""
    text = keepable(text)
    if len(text.encode()) <= check.NOTE_BYTES_MAX:
        return text
    return text.encode()[: check.NOTE_BYTES_MAX].decode("utf-8", "ignore")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
