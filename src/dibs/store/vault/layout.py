"""The folders of a vault: the folder shows the item's status, and moving a file between folders is a verb.

The folders of the claim-by-move contract keep their names. `MOVES` maps the item's status and the folder where its
file is found now to verbs. A pair that the table does not have changes the status to the folder's (`found`).
docs/guides/vault.md draws the same table.
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
#: Prefix of the session id of an agent that claims by moving files.
BY_MOVE = "files-"
#: The reason recorded for a transition by moving a file.
MOVED = "its file was moved"
#: This machine's own folder in the vault, and the index in it.
HIDDEN = ".dibs"
INDEX = "vault.db"

HELD = "In_Progress"
APPROVED = "Approved"
#: Not scanned: the files of pruned items, and texts that could not be merged.
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
#: The scanned folders, in the order in which files pass through them, so that a scan meets a file that moves on
#: meanwhile at least once. Files in `In_Progress` are one level deeper, by agent.
SCANNED = (
    *("Scheduled", "Blocked", "Pending_Approval", APPROVED, "Parked", "Needs_Action"),
    *(HELD, "Done", "Rejected", "Failed", "Cancelled"),
)
#: The folders of the contract, created with a vault. The others are created when they are needed.
INITIAL = ("Needs_Action", HELD, "Pending_Approval", APPROVED, "Done", "Rejected")

#: The folders to which a holder moves a file to end its run.
ENDS = ("Done", "Rejected", "Failed", "Pending_Approval")
#: The folders of items that are unclaimed and can be claimed, now or later.
UNCLAIMED = ("Needs_Action", APPROVED, "Blocked", "Scheduled")

#: status before -> folder now -> the verbs, in order.
MOVES: dict[str, dict[str, tuple[str, ...]]] = {
    IN_PROGRESS: {
        **dict.fromkeys(UNCLAIMED, ("force_release",)),
        HELD: ("force_release", "claim"),
        "Pending_Approval": ("submit",),
        "Done": ("done",),
        "Rejected": ("reject",),
        "Failed": ("fail",),
        # Not a release by the holder: the holder must learn of it, because the item may go to another after an unpark.
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
    **{
        status: {**dict.fromkeys(("Needs_Action", "Blocked", "Scheduled"), ("reopen",)), HELD: ("reopen", "claim")}
        for status in (DONE, REJECTED, CANCELLED)
    },
}


def session_by_move(agent: str, clone: str | None) -> str:
    """The session of an agent that claims by moving files. It names the clone, since two may have an agent of one
    name."""
    return f"{BY_MOVE}{agent}" if clone is None else f"{BY_MOVE}{agent}-{clone}"


def is_by_move(session: str) -> bool:
    return session.startswith(BY_MOVE)


def folder_of(status: str, agent: str | None) -> str:
    """The folder of an item with this status; `agent` holds it, if it is in progress."""
    return f"{HELD}/{agent}" if status == IN_PROGRESS else FOLDERS[status]


def split(path: str) -> tuple[str, str | None, str]:
    """The folder, the agent if the folder is an agent's, and the file name."""
    place, _, name = path.rpartition("/")
    folder, _, agent = place.partition("/")
    return folder, agent or None, name


def name_of(path: str) -> str:
    return path.rpartition("/")[2]
