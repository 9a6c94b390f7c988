"""Workers: functions and commands that take items as they come."""

from dibs.worker.handler_loop import CannotBegin, Draft
from dibs.worker.worker import Worker, appending

__all__ = ["CannotBegin", "Draft", "Worker", "appending"]
