"""All files of a work tree, with the care that `disk` has for those of tasks."""

from __future__ import annotations

from dibs.store.vault.disk import Disk, Unfit
from dibs.store.vault.git.path_policy import why_unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.store.vault.safe_fs import Folder


class Files(Disk):
    def _at(self, path: str, *, make: bool = False) -> tuple[Folder, str]:
        why = why_unfit(path, "100644")
        if why is not None:
            raise Unfit(f"{path!r} is {why}")
        place, _, name = path.rpartition("/")
        return self._beneath.folder(place, make=make), name
