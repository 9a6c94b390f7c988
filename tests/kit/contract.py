"""The contract at run time, where `Store` itself leaves the declarations of the verbs out."""

from __future__ import annotations

from dibs.store.contract import Store
from dibs.store.contract.manage import ManageVerbs
from dibs.store.contract.read import ReadVerbs
from dibs.store.contract.work import WorkVerbs


class Contract(Store, ManageVerbs, WorkVerbs, ReadVerbs):
    """Every verb, and everything else that the board uses of a store."""
