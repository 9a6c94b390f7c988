"""What the parts of the state machine share: the two sides, and how steps are chosen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition

from tests.kit.comparison import SESSIONS, Comparison

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from dibs.testing.harness import Harness

    T = TypeVar("T", bound=Callable[..., Any])

items = st.integers(0, 3)
sessions = st.sampled_from(SESSIONS)
#: Who acts on an item: anybody, or more often the one who holds it or had it last.
actors = st.sampled_from((*SESSIONS, *["holder"] * 8))
#: Which token a holder shows: none, the latest, the one before, one that was never given.
tokens = st.sampled_from(("none", "none", "latest", "latest", "latest", "older", "future"))
ttls = st.sampled_from((None, 60.0, 600.0, 7200.0))
spans = st.sampled_from((0.001, 1.0, 14.999, 15.0, 59.999, 60.0, 61.0, 600.0, 1801.0, 7201.0, -30.0))

#: Of steps that there is nothing to do for, so many are tried all the same: their refusal has to be right, too.
ONE_IN = 5


def when(found: Callable[[Any], object]) -> Callable[[T], T]:
    """A step that is taken if there is something to do for it, and else only now and then."""

    def worthwhile(self: Any) -> bool:
        return bool(found(self)) or len(self.model.runs) % ONE_IN == 0

    return precondition(worthwhile)


class Driven(RuleBasedStateMachine):
    """Both sides, looked at after every step."""

    open_harness: ClassVar[Callable[[], Harness]]
    met: ClassVar[Counter[str]] = Counter()
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.both = Comparison(type(self).open_harness(), self.met)
        self.model, self.board, self.other = self.both.model, self.both.board, self.both.other

    @initialize(limit=st.sampled_from((1, 1, 2, None)), total=st.sampled_from((None, None, 1, 3)), drafts=st.booleans())
    def begin(self, limit: int | None, total: int | None, drafts: bool) -> None:
        self.both.begin(limit, total, drafts=drafts)

    @invariant()
    def both_look_the_same(self) -> None:
        type(self).steps += 1
        self.both.look()

    def teardown(self) -> None:
        self.both.close()

    def agree(self, verb: str, model: Callable[[], Any], board: Callable[[], Any], *, told: bool = False) -> None:
        self.both.agree(verb, model, board, told=told)
