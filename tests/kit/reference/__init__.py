"""A small model of the board, to compare a real one with: plain dicts, one process, no storage, no shared code.

Every verb either returns what matters of its answer or raises `No` with the code and what the caller must be told.
Time is whatever `now` says. One thing is left open, as the contract leaves it open: whether a refused verb writes down
what time has done. Here it does not; `freshen` is told when the board has.

`moving` is how an item gets from one status to the next and who is offered it, `people` what people do to items,
`holding` the claim path, `waiting` tickets and soft claims.
"""

from __future__ import annotations

from tests.kit.reference.holding import Holding
from tests.kit.reference.moving import No
from tests.kit.reference.people import People
from tests.kit.reference.waiting import Waiting

__all__ = ["No", "Reference"]


class Reference(People, Holding, Waiting):
    pass
