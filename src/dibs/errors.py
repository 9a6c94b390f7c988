"""The errors of dibs. Each class has a stable code, an HTTP status, an exit code, and facts for programs.

    DibsError
    ├── ItemNotFound          TASK_NOT_FOUND        404  exit 5
    ├── SessionNotFound       SESSION_NOT_FOUND     404  exit 5
    ├── ItemAlreadyClaimed    TASK_ALREADY_CLAIMED  409  exit 4   holder, claimed_at, expires_at, remaining_seconds
    ├── ItemNotClaimed        TASK_NOT_CLAIMED      404  exit 4   how
    ├── ItemNotClaimable      TASK_NOT_CLAIMABLE    400  exit 4   status, why
    ├── NotClaimOwner         NOT_CLAIM_OWNER       403  exit 4   holder
    ├── ClaimExpired          CLAIM_EXPIRED         410  exit 4   how, token, taken_over_by
    ├── ItemChanged           TASK_CHANGED          409  exit 4   revision, changed_by, changed_at, change
    ├── AgentAtCapacity       AGENT_AT_CAPACITY     409  exit 75  agent, held, max_claims
    ├── ResourceBusy          RESOURCE_BUSY         409  exit 75  resource, held_for, holder
    ├── RateLimited           RATE_LIMITED          429  exit 75  retry_after_seconds
    ├── Invalid               INVALID               422  exit 1   field
    ├── Forbidden             FORBIDDEN             403  exit 6
    ├── NotTrusted            NOT_TRUSTED           403  exit 6   path, trust (the command that trusts it)
    ├── Unauthenticated       UNAUTHENTICATED       401  exit 6   the server does not know the caller's key
    └── StoreUnavailable      STORE_UNAVAILABLE     503  exit 75  retry_after_seconds
        └── StoreUnusable     STORE_UNAVAILABLE     503  exit 1   permanent: damaged, newer, not writable; do not wait

A contract that dibs implements prescribes the first seven codes, hence TASK; TASK_CHANGED follows them. Everywhere else
the noun is item.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class DibsError(Exception):
    """The root. `message` is one line that says what would be right; `facts` is plain JSON."""

    code: ClassVar[str] = "ERROR"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init_subclass__(cls, **constants: Any) -> None:
        for name, value in constants.items():
            setattr(cls, name, value)

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.facts))


def _rebuild(cls: type[DibsError], message: str, facts: dict[str, Any]) -> DibsError:
    return cls(message, **facts)


class ItemNotFound(DibsError, code="TASK_NOT_FOUND", http_status=404, exit_code=5):
    """The board has no such item."""


class SessionNotFound(DibsError, code="SESSION_NOT_FOUND", http_status=404, exit_code=5):
    """The board has no such session, or the session has ended."""


class ItemAlreadyClaimed(DibsError, code="TASK_ALREADY_CLAIMED", http_status=409, exit_code=4):
    """Another session holds the item."""


class ItemNotClaimed(DibsError, code="TASK_NOT_CLAIMED", http_status=404, exit_code=4):
    """The item has no claim."""


class ItemNotClaimable(DibsError, code="TASK_NOT_CLAIMABLE", http_status=400, exit_code=4):
    """The status of the item does not allow a claim."""


class NotClaimOwner(DibsError, code="NOT_CLAIM_OWNER", http_status=403, exit_code=4):
    """Another session holds the claim."""


class ClaimExpired(DibsError, code="CLAIM_EXPIRED", http_status=410, exit_code=4):
    """The claim of the caller is over, whether or not another session has the item."""


class ItemChanged(DibsError, code="TASK_CHANGED", http_status=409, exit_code=4):
    """The item has changed since the caller read it."""


class AgentAtCapacity(DibsError, code="AGENT_AT_CAPACITY", http_status=409, exit_code=75):
    """The agent or the session holds as many claims as it may."""


class ResourceBusy(DibsError, code="RESOURCE_BUSY", http_status=409, exit_code=75):
    """A claim of another item holds a resource of this one."""


class RateLimited(DibsError, code="RATE_LIMITED", http_status=429, exit_code=75):
    """The agent claims faster than it may."""


class Invalid(DibsError, code="INVALID", http_status=422, exit_code=1):
    """The input is wrong, and nothing was changed."""


class Forbidden(DibsError, code="FORBIDDEN", http_status=403, exit_code=6):
    """The caller may not do this."""


class NotTrusted(DibsError, code="NOT_TRUSTED", http_status=403, exit_code=6):
    """A search found a file of another user that is not on the trust list."""


class Unauthenticated(DibsError, code="UNAUTHENTICATED", http_status=401, exit_code=6):
    """The server does not know the caller's key."""


class StoreUnavailable(DibsError, code="STORE_UNAVAILABLE", http_status=503, exit_code=75):
    """The store cannot be reached now."""


class StoreUnusable(StoreUnavailable, exit_code=1):
    """Unavailable, and waiting does not help: a fact that the answer of a server carries, because the code does not."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message, **{"permanent": True, **facts})


#: The class of each code.
BY_CODE = {DibsError.code: DibsError} | {kind.code: kind for kind in DibsError.__subclasses__()}
