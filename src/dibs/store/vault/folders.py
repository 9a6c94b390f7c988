"""Where an item's file lies says how the item stands; and what it means that somebody moved it.

The folders of the source keep their names. `MOVES` is the table of folder pairs: how the item stood, where its file is
found now, and the verbs that this amounts to. What the table does not name is `found`: the folder counts, whatever was
before. docs/guides/vault.md draws the same table.
"""

from __future__ import annotations

from dibs.model import (
    BLOCKED,
    CANCELLED,
    DONE,
    FAILED,
    IN_PROGRESS,
    PARKED,
    PENDING_APPROVAL,
    READY,
    REJECTED,
    SCHEDULED,
)

SUFFIX = ".md"
#: How the session of an agent begins that only moves files.
BY_MOVE = "files-"
#: The reason of whatever a move means.
MOVED = "its file was moved"
#: The index of this machine, and where it lies with all else that is nobody's business.
HIDDEN = ".dibs"
INDEX = "vault.db"

HELD = "In_Progress"
APPROVED = "Approved"
#: Not looked into: what was pruned, and texts for which there was no better place.
ARCHIVE = "Archive"
CONFLICTS = "Conflicts"

FOLDERS = {
    READY: "Needs_Action",
    IN_PROGRESS: HELD,
    PENDING_APPROVAL: "Pending_Approval",
    DONE: "Done",
    REJECTED: "Rejected",
    FAILED: "Failed",
    PARKED: "Parked",
    BLOCKED: "Blocked",
    SCHEDULED: "Scheduled",
    CANCELLED: "Cancelled",
}
STATUSES = {folder: status for status, folder in FOLDERS.items()}
#: All that are looked into, in the order in which files go through them: one that goes on during a scan is met at least
#: once. What is held lies one level deeper, by agent.
LOOKED_INTO = (
    *("Scheduled", "Blocked", "Pending_Approval", APPROVED, "Parked", "Needs_Action"),
    *(HELD, "Done", "Rejected", "Failed", "Cancelled"),
)
#: Those of the source, made with a vault; the others are made when they are needed.
AT_FIRST = ("Needs_Action", HELD, "Pending_Approval", APPROVED, "Done", "Rejected")

#: Where whoever holds an item moves its file to end the run.
ENDS = ("Done", "Rejected", "Failed", "Pending_Approval")
#: Where files lie that nobody holds and that somebody may take, now or later.
BACK = ("Needs_Action", APPROVED, "Blocked", "Scheduled")

#: status before -> folder now -> the verbs, in order.
MOVES: dict[str, dict[str, tuple[str, ...]]] = {
    IN_PROGRESS: {
        **dict.fromkeys(BACK, ("force_release",)),
        HELD: ("force_release", "claim"),
        "Pending_Approval": ("submit",),
        "Done": ("done",),
        "Rejected": ("reject",),
        "Failed": ("fail",),
        # Not a release by its holder, who has to hear of it: whoever unparks it may give it to another.
        "Parked": ("force_release", "park"),
        "Cancelled": ("cancel",),
    },
    PENDING_APPROVAL: {
        APPROVED: ("approve",),
        "Needs_Action": ("send_back",),
        HELD: ("approve", "claim"),
        "Done": ("approve",),
        "Rejected": ("reject",),
        "Parked": ("park",),
        "Cancelled": ("cancel",),
    },
    **{
        status: {HELD: ("claim",), "Parked": ("park",), "Cancelled": ("cancel",)}
        for status in (READY, BLOCKED, SCHEDULED)
    },
    PARKED: {"Needs_Action": ("unpark",), HELD: ("claim",), "Cancelled": ("cancel",)},
    FAILED: {"Needs_Action": ("retry",)},
}


def session_by_move(agent: str, clone: str | None) -> str:
    """The session of an agent that takes items by moving their files. Two clones may have an agent of one name."""
    return f"{BY_MOVE}{agent}" if clone is None else f"{BY_MOVE}{agent}-{clone}"


def is_by_move(session: str) -> bool:
    return session.startswith(BY_MOVE)


def folder_of(status: str, agent: str | None) -> str:
    """Where the file of an item lies that stands so, and is held by this agent if it is held."""
    return f"{HELD}/{agent}" if status == IN_PROGRESS else FOLDERS[status]


def split(path: str) -> tuple[str, str | None, str]:
    """The folder, the agent if it is one of those that hold, and the name of the file."""
    place, _, name = path.rpartition("/")
    folder, _, agent = place.partition("/")
    return folder, agent or None, name
