"""Who calls: a key in the Authorization header, or in the cookie of a browser that signed in; and what that allows.

Identity comes from the key alone. What a body says about sessions and actors is held against it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from fastapi import Request

from dibs import access, check
from dibs.access import ADMIN, AGENT
from dibs.board import Board
from dibs.errors import Forbidden, Invalid, SessionNotFound, Unauthenticated
from dibs.model import PERSON, SQL, Key, Session
from dibs.rules.decision import BOARD
from dibs.value import Value

COOKIE = "dibs_session"
#: With this prefix, a browser takes a cookie only from this very host, encrypted.
SECURE_COOKIE = f"__Host-{COOKIE}"
#: For so long a key that was found good is taken for good: a revoked one is not much longer in use.
TRUSTED_SECONDS = 1.0
TRUSTED_MAX = 10_000
#: How the history calls a key of no agent, before its id.
NAMELESS = "key-"
NEEDS_KEY = "this needs a key that is good: as DIBS_KEY, or Authorization: Bearer KEY (dibs key create makes one)"


def secret_of(request: Request) -> str:
    """The secret that came along, empty if it is none for the place it came in. A cookie counts only where there is no
    Authorization header at all: only there the guard has asked where a change comes from."""
    said = request.headers.get("authorization")
    if said is None:
        cookie = request.cookies.get(SECURE_COOKIE) or request.cookies.get(COOKIE, "")
        return cookie if access.is_browsers(cookie) else ""
    kind, _, secret = said.partition(" ")
    if kind.lower() != "bearer":
        raise Unauthenticated("the Authorization header is: Bearer KEY")
    return "" if access.is_browsers(secret.strip()) else secret.strip()


class Caller(Value):
    key: str
    role: str
    agent: str | None

    @property
    def actor(self) -> str:
        """As whom it stands in the history."""
        return self.agent or f"{NAMELESS}{self.key}"


class Callers:
    def __init__(self, board: Board) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._trusted: dict[str, tuple[float, Key]] = {}
        #: Called when a key has been revoked here.
        self.on_revoked: Callable[[], None] = lambda: None

    def known(self, request: Request) -> Caller:
        """Whose request it is. May ask the store: not for the event loop."""
        key = self._good(secret_of(request))
        if key is None or key.role == access.LOGIN:
            raise Unauthenticated(NEEDS_KEY)
        return Caller(key=key.id, role=key.role, agent=key.agent)

    def known_now(self, request: Request) -> Caller:
        """The same by the store's word of this instant."""
        with self._lock:
            self._trusted.pop(access.digest(secret_of(request)), None)
        return self.known(request)

    def just_known(self, request: Request) -> Caller | None:
        """The same if its key was found good just now. Asks nobody."""
        key = self._just_trusted(access.digest(secret_of(request)))
        return None if key is None else Caller(key=key.id, role=key.role, agent=key.agent)

    def may_sign_in(self, code: str) -> bool:
        """Whether a login code is good, without using it up."""
        return self._login_of(code) is not None

    def signed_in(self, code: str, seconds: float) -> str | None:
        """A new secret for a browser in exchange for a login code, which is good once."""
        key = self._login_of(code)
        if key is None:
            return None
        try:
            self._board.revoke_key(key.id)
        except Invalid:
            return None  # somebody was faster
        own, secret = access.made_for_browser(ADMIN, key.agent)
        self._board.store.put_key(own, seconds=seconds)
        return secret

    def revoke(self, caller: Caller, key: str, request_id: str | None = None) -> Key:
        """Here it is good no more from now on; on other servers of the board, when they look again."""
        revoked = self._board.revoke_key(key, actor=caller.actor, request_id=request_id)
        with self._lock:
            self._trusted = {digest: kept for digest, kept in self._trusted.items() if kept[1].id != key}
        self.on_revoked()
        return revoked

    def _login_of(self, code: str) -> Key | None:
        key = self._good(code)
        return key if key is not None and key.role == access.LOGIN else None

    def _good(self, secret: str) -> Key | None:
        id = access.id_of(secret)
        if id is None:
            return None
        digest = access.digest(secret)
        trusted = self._just_trusted(digest)
        if trusted is not None:
            return trusted
        key = self._board.store.find_key(id)
        if key is None or not access.fits(key, secret):
            return None
        if key.role != access.LOGIN:
            with self._lock:
                if len(self._trusted) >= TRUSTED_MAX:
                    self._trusted.clear()
                self._trusted[digest] = (time.monotonic() + TRUSTED_SECONDS, key)
        return key

    def _just_trusted(self, digest: str) -> Key | None:
        until, key = self._trusted.get(digest, (0.0, None))
        return key if until > time.monotonic() else None

    # What it may

    def need(self, caller: Caller, role: str) -> None:
        if not access.may(caller.role, role):
            raise Forbidden(f"this needs a key of role {role}; yours is {caller.role}", role=role)

    def need_session(self, caller: Caller, session: str) -> None:
        """It acts only for sessions that it registered itself, or that its agent made in SQL, unless it is an
        admin's."""
        if caller.role == ADMIN:
            return
        found = self._board.store.find_session(check.session_id(session))
        if found is None:
            raise SessionNotFound(f"the session {session} is not known", session=session, ended=False)
        self.need_own(caller, found)

    def need_own(self, caller: Caller, session: Session) -> None:
        if caller.role != ADMIN and session.key != caller.key and not self.takes_up(caller, session):
            raise Forbidden(f"the session {session.id} was registered by another key", session=session.id)

    def takes_up(self, caller: Caller, session: Session) -> bool:
        """Whether the session is this caller's from now on: its agent made it in SQL, where there are no keys. Of an
        agent's keys the first has it for as long as that key is good; a key of no agent never does."""
        made_in_sql = session.kind == SQL and session.ended_at is None
        if not made_in_sql or session.agent != caller.agent or not access.may(caller.role, AGENT):
            return False
        store = self._board.store
        if session.key is not None and store.find_key(session.key) is not None:
            return False
        return store.take_up(session.id, key=caller.key, agent=session.agent).key == caller.key

    def need_kind(self, caller: Caller, kind: str | None) -> None:
        """Claims of a person last for hours without a sign of life: that is not for any program to say of itself."""
        if kind == PERSON and not access.may(caller.role, access.PERSON):
            raise Forbidden(
                f"a session of kind {PERSON} needs a key of role {access.PERSON} or {ADMIN}, and this one's is"
                f" {caller.role}; dibs key create --role {access.PERSON} makes one",
                role=access.PERSON,
            )

    def agent_of(self, caller: Caller, asked: str | None, otherwise: str = "") -> str:
        """The agent that a new session is of: the key's. A key of no agent acts for agents without a key of their own:
        what an agent is allowed, and what its limits leave, is for those who were given its key."""
        agent = asked or caller.agent or otherwise
        if caller.role != ADMIN and caller.agent is not None and agent != caller.agent:
            raise Forbidden(f"this key is {caller.agent}'s and starts no sessions of {agent}", agent=caller.agent)
        if caller.role != ADMIN and caller.agent is None:
            if agent == BOARD or agent.startswith(NAMELESS):
                raise Forbidden(f"{agent} is what the history calls somebody else; choose another name", agent=agent)
            if agent in self._agents_with_keys():
                raise Forbidden(f"{agent} has a key of its own, with which its sessions are started", agent=agent)
        return agent

    def _agents_with_keys(self) -> set[str | None]:
        """Also of keys that are good no more: to revoke one must not make its agent anybody's."""
        known = self._board.keys()
        return {key.agent for key in known}
