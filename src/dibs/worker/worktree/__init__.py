"""A git worktree and a branch for each item that a command works on."""

from dibs.worker.worktree.worktrees import WORKTREES_MAX, Occupied, Worktree, Worktrees

__all__ = ["WORKTREES_MAX", "Occupied", "Worktree", "Worktrees"]
