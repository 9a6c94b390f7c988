"""The keys of a server's callers, kept with the board so that every server on it knows them."""

from __future__ import annotations

from abc import abstractmethod

from dibs.errors import Invalid
from dibs.model import Key
from dibs.store.sql import rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from dibs.model import Request, Session
    from dibs.store.sql.transaction import Transaction
    from dibs.value import Value

    T = TypeVar("T")


class Keys:
    @abstractmethod
    def read(self, work: Callable[[Transaction], T]) -> T: ...

    @abstractmethod
    def write(
        self, work: Callable[[Transaction], T], request: Request | None = None, kind: type[Value] | None = None
    ) -> T: ...

    def put_key(self, key: Key, *, seconds: float | None = None) -> Key:
        def put(t: Transaction) -> Key:
            row = t.one("key_by_id", id=key.id)
            known = None if row is None else rows.key(row)
            kept = _dated(key, t.now if known is None else known.created_at, seconds)
            if known is not None and known.replace(revoked_at=None) == kept:
                return known
            if known is not None:
                raise Invalid(f"there is a key {key.id} already", field="id", key=key.id)
            t.run("put_key", rows.encode(kept))
            return kept

        return self.write(put)

    def find_key(self, id: str) -> Key | None:
        return self.read(lambda t: find_good_key(t, id))

    def keys(self) -> tuple[Key, ...]:
        return self.read(lambda t: tuple(rows.key(row) for row in t.all("keys")))

    def revoke_key(self, id: str, *, request: Request | None = None) -> Key:
        def revoke(t: Transaction) -> Key:
            row = t.one("revoke_key", id=id, now=t.now)
            if row is None:
                how = "is not known" if t.one("key_by_id", id=id) is None else "was revoked already"
                raise Invalid(f"the key {id} {how}", field="key", key=id)
            return rows.key(row).replace(digest="")

        return self.write(revoke, request, Key)

    def find_session(self, id: str) -> Session | None:
        def find(t: Transaction) -> Session | None:
            row = t.one("session_by_id", id=id)
            return None if row is None else rows.session(row)

        return self.read(find)


def find_good_key(t: Transaction, id: str) -> Key | None:
    row = t.one("key_by_id", id=id)
    found = None if row is None else rows.key(row)
    if found is None or found.revoked_at is not None:
        return None
    return found if found.expires_at is None or found.expires_at > t.now else None


def _dated(key: Key, created_at: int, seconds: float | None) -> Key:
    return key.replace(
        created_at=created_at, expires_at=None if seconds is None else created_at + round(seconds * 1000)
    )
