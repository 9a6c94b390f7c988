"""The worker of the assignment service, from the document's Ruby: its loop, its timeout, both outcomes, its priorities.

Changed: the language; the service, the agent, what is done with an item and the pause are given to it, and by the pause
the loop is ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

PRIORITIES = {
    "critical_bug": 10,
    "security_issue": 9,
    "bug": 8,
    "feature": 5,
    "documentation": 3,
    "refactoring": 1,
}


class WorkItem(Protocol):
    """What `perform_work` may know of an item."""

    id: str
    work_type: str
    payload: dict[str, Any]


class AssignmentService(Protocol):
    def lease_next_work_item(self, agent: str) -> WorkItem | None: ...
    def release_work_item(self, work_item: WorkItem) -> None: ...
    def complete_work_item(self, work_item: WorkItem, *, outcome: str) -> None: ...


def work(
    service: AssignmentService, agent: str, perform_work: Callable[[WorkItem], None], sleep: Callable[[float], None]
) -> None:
    while True:
        work_item = service.lease_next_work_item(agent)

        if work_item:
            process(service, work_item, perform_work)
        else:
            # Back off when queue is empty
            sleep(5)


def process(service: AssignmentService, work_item: WorkItem, perform_work: Callable[[WorkItem], None]) -> None:
    try:
        perform_work(work_item)
        service.complete_work_item(work_item, outcome="success")
    except TimeoutError:
        # Release the work item so another agent can try
        service.release_work_item(work_item)
        raise
    except Exception:
        service.complete_work_item(work_item, outcome="failure")
