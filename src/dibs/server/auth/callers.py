"""Authentication by the key in the Authorization header or in a browser's cookie, and what each key may do.

Only the key identifies a caller. The sessions and actors that a request names are checked against it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable

from fastapi import Request
from fastapi.responses import Response

from dibs import api_keys
from dibs.board import Board
from dibs.errors import Forbidden, Invalid, Unauthenticated
from dibs.model import ADMIN, AGENT, LOGINS, PERSON, SQL, Key, Session
from dibs.rules.decision import BOARD
from dibs.rules.sessions import KEPT_PREFIXES
from dibs.value import Value

#: How the name of a cookie begins. A mark of the host follows, so that a cookie of another host is not taken for one.
COOKIE = "dibs_session_"
HOST_MARK_LENGTH = 16
DIGESTS = "dibs.digests"
#: Browsers accept a cookie with this prefix only from this very host, and only encrypted.
SECURE_COOKIE = f"__Host-{COOKIE}"
#: Of so many cookies with these names a valid one is searched.
COOKIES_MAX = 5
#: How long a valid key is cached, and so for how long a key that was revoked elsewhere remains valid here.
CACHE_SECONDS = 1.0
CACHE_KEYS_MAX = 10_000
#: The use of a key is noted so often by one process; the store notes it once for all.
USE_SECONDS = 3600.0
#: For how long a key that was valid is accepted for metrics while the store is gone and cannot tell.
GONE_CACHE_SECONDS = 86400.0
#: How long a browser stays signed in without being used, how often that is extended, and how long at most.
COOKIE_SECONDS = 12 * 3600
RENEWAL_SECONDS = 3600.0
SIGN_IN_SECONDS = 30 * 86400
#: The history names a key without an agent by this prefix and the key's id.
KEY_ACTOR_PREFIX = "key-"
NEEDS_KEY = "a valid key is needed, as DIBS_KEY or Authorization: Bearer KEY; dibs key create makes one"


def secrets_of(request: Request) -> list[str]:
    """The secrets of a request, of which one may be valid; none if a browser's secret is in the header, or another
    secret in a cookie. A cookie counts only without an Authorization header, because only then the guard has checked
    the Origin of a change."""
    headers = request.headers.getlist("authorization")
    if not headers:
        return [secret for _, secret in browser_cookies(request)]
    if len(headers) > 1:
        # A proxy in front of the server may have looked at the other one.
        raise Unauthenticated("a request has one Authorization header")
    scheme, _, secret = headers[0].partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated("the Authorization header must be: Bearer KEY")
    return [] if api_keys.is_for_browser(secret.strip()) else [secret.strip()]


def digests_of(request: Request) -> list[str]:
    """The digests of those secrets, calculated once for a request: its caller is looked up several times."""
    scope = request.scope
    if DIGESTS not in scope:
        scope[DIGESTS] = [api_keys.digest(secret) for secret in secrets_of(request)]
    found: list[str] = scope[DIGESTS]
    return found


def browser_cookies(request: Request) -> list[tuple[str, str]]:
    """The cookies, by name and secret, that may be a browser's of this server. There may be several: a page of a host
    beside this one can add some if it knows this host's name, and must not sign the browser out by them. A browser
    sends cookies with longer paths first; its own has the shortest."""
    pairs = (pair.strip().partition("=") for line in request.headers.getlist("cookie") for pair in line.split(";"))
    host = request.headers.get("host", "")
    secure, plain = cookie_name(host, is_secure=True), cookie_name(host, is_secure=False)
    found = [(name, secret) for name, _, secret in pairs if name in (secure, plain)]
    found = [(name, secret) for name, secret in reversed(found) if api_keys.is_for_browser(secret)]
    return sorted(found, key=lambda cookie: cookie[0] != secure)[:COOKIES_MAX]


def cookie_name(host: str, *, is_secure: bool) -> str:
    """On loopback the host's name is a secret (see `dibs.system.keyring`), and so is this name."""
    mark = hashlib.sha256(host.lower().encode()).hexdigest()[:HOST_MARK_LENGTH]
    return f"{SECURE_COOKIE if is_secure else COOKIE}{mark}"


def set_cookie(response: Response, name: str, secret: str) -> None:
    response.set_cookie(
        name,
        secret,
        max_age=COOKIE_SECONDS,
        httponly=True,
        samesite="strict",
        secure=name.startswith(SECURE_COOKIE),
        path="/",
    )


class Caller(Value):
    """`line` is the first of the keys that the key of this request replaces, or that key: its sessions have it."""

    key: str
    role: str
    agent: str | None
    line: str

    @classmethod
    def of_key(cls, key: Key) -> Caller:
        return cls(key=key.id, role=key.role, agent=key.agent, line=key.line or key.id)

    @property
    def actor(self) -> str:
        """The caller's name in the history."""
        return self.agent or f"{KEY_ACTOR_PREFIX}{self.key}"

    @property
    def session_key(self) -> str | None:
        """The key that a new session of this caller belongs to; None if any admin may act for it."""
        return None if self.role == ADMIN else self.line


NOT_CACHED: tuple[float, Key | None, Caller | None] = (0.0, None, None)


class Callers:
    def __init__(self, board: Board, browser_mark: str = "") -> None:
        """`browser_mark` is in the ids of the keys of browsers that sign in here."""
        self._board, self._browser_mark = board, browser_mark
        self._lock = threading.Lock()
        #: Until when each key is cached, and the caller whom it is of, by the digest of its secret.
        self._cache: dict[str, tuple[float, Key, Caller]] = {}
        #: Until when it is cached that a key acts for a session, as for the keys.
        self._owned: dict[tuple[str, str], float] = {}
        #: Keys in use whose last use has to be noted, and when that of each was.
        self._used: set[str] = set()
        self._noted: dict[str, float] = {}
        #: When each browser's key was renewed.
        self._renewed: dict[str, float] = {}
        #: Called after a key was revoked through this server.
        self.on_revoked: Callable[[], None] = lambda: None

    def authenticate(self, request: Request, board: Board | None = None) -> Caller:
        """Do not call this in the event loop: it may read from the store. A verb that shares its commit reads from the
        `board` of that commit, here and below."""
        caller = self.cached(request)
        if caller is not None:
            return caller
        for secret in secrets_of(request):
            key = self._valid_key(secret, board)
            if key is not None and key.role not in LOGINS:
                return Caller.of_key(key)
        raise Unauthenticated(NEEDS_KEY)

    def reauthenticate(self, request: Request) -> Caller:
        """`authenticate` without the cache."""
        with self._lock:
            for digest in digests_of(request):
                self._cache.pop(digest, None)
        return self.authenticate(request)

    def cached(self, request: Request) -> Caller | None:
        """`authenticate` from the cache alone: None if the store has to be read."""
        for digest in digests_of(request):
            until, _, caller = self._cache.get(digest, NOT_CACHED)
            if until > time.monotonic():
                return caller
        return None

    def formerly_valid(self, request: Request) -> Caller | None:
        """The caller, if the key was valid here within `GONE_CACHE_SECONDS`: for metrics while the store is gone."""
        now = time.monotonic()
        for digest in digests_of(request):
            until, key, caller = self._cache.get(digest, NOT_CACHED)
            is_live = key is not None and (key.expires_at is None or key.expires_at > time.time() * 1000)
            if is_live and until + GONE_CACHE_SECONDS > now:
                return caller
        return None

    def is_login_code(self, code: str) -> bool:
        """Whether a login code is valid. Does not use the code up."""
        return self._login_key(code) is not None

    def exchange_login_code(self, code: str, seconds: float) -> str | None:
        """A new secret for a browser, in exchange for a login code, which is valid once."""
        key = self._login_key(code)
        if key is None:
            return None
        try:
            self._board.revoke_key(key.id)
        except Invalid:
            return None  # another request has used the code
        own, secret = api_keys.new_for_browser(LOGINS[key.role], key.agent, self._browser_mark)
        self._board.store.put_key(own, seconds=seconds)
        return secret

    def revoke_replaced(self, request: Request) -> None:
        """Revoke the key of a browser that signs in again: its cookie is replaced, and so nobody could sign it out."""
        for _, secret in browser_cookies(request):
            key = self._valid_key(secret)
            if key is not None and key.role not in LOGINS:
                self.revoke(Caller.of_key(key), key.id)

    def cookie_to_renew(self, request: Request, caller: Caller) -> tuple[str, str] | None:
        """The name and the secret of a browser's cookie that has not been renewed for a while."""
        if request.headers.get("authorization") is not None:
            return None
        now = time.monotonic()
        renewed_at = self._renewed.get(caller.key)
        if renewed_at is not None and renewed_at > now - RENEWAL_SECONDS:
            return None
        if len(self._renewed) >= CACHE_KEYS_MAX:
            self._renewed.clear()
        self._renewed[caller.key] = now
        own = (cookie for cookie in browser_cookies(request) if api_keys.id_of(cookie[1]) == caller.key)
        return next(own, None)

    def renew(self, caller: Caller) -> bool:
        """Extend the key of a browser that is in use; whether that is possible."""
        return self._board.store.renew_key(caller.key, seconds=COOKIE_SECONDS, seconds_max=SIGN_IN_SECONDS) is not None

    def _use(self, key: str) -> None:
        """Have the use of a key noted, at most once in a while. Called with the lock."""
        now = time.monotonic()
        if self._noted.get(key, float("-inf")) < now - USE_SECONDS:
            if len(self._noted) >= CACHE_KEYS_MAX:
                self._noted.clear()
            self._noted[key] = now
            self._used.add(key)

    def take_used(self) -> set[str]:
        """The keys whose use is to be noted, once."""
        with self._lock:
            used, self._used = self._used, set()
        return used

    def forget(self, key: str) -> None:
        """Ask the store about this key again, for open requests too."""
        with self._lock:
            self._cache = {digest: entry for digest, entry in self._cache.items() if entry[1].id != key}
        self.on_revoked()

    def revoke(self, caller: Caller, key: str, request_id: str | None = None) -> Key:
        """Takes effect here at once, and on other servers of the board when their cache ends."""
        revoked = self._board.revoke_key(key, actor=caller.actor, request_id=request_id)
        self.forget(key)
        return revoked

    def _login_key(self, code: str) -> Key | None:
        key = self._valid_key(code)
        return key if key is not None and key.role in LOGINS else None

    def _valid_key(self, secret: str, board: Board | None = None) -> Key | None:
        id = api_keys.id_of(secret)
        if id is None:
            return None
        digest = api_keys.digest(secret)
        cached = self._cached_key(digest)
        if cached is not None:
            return cached
        key = (board or self._board).store.find_key(id)
        if key is None or not api_keys.matches(key, secret):
            return None
        if key.role not in LOGINS:
            with self._lock:
                if len(self._cache) >= CACHE_KEYS_MAX:
                    self._cache.clear()
                self._cache[digest] = (time.monotonic() + CACHE_SECONDS, key, Caller.of_key(key))
                self._use(key.id)
        return key

    def _cached_key(self, digest: str) -> Key | None:
        until, key, _ = self._cache.get(digest, NOT_CACHED)
        return key if until > time.monotonic() else None

    # Authorization

    def require_role(self, caller: Caller, role: str) -> None:
        if not api_keys.may(caller.role, role):
            raise Forbidden(f"this needs a key of role {role}; your key has role {caller.role}", role=role)

    def require_session(self, caller: Caller, session: str, board: Board | None = None) -> None:
        """An admin's key acts for any session; another only for sessions that it started, or that its agent made in
        SQL."""
        if caller.role == ADMIN or self._owned.get((caller.key, session), 0.0) > time.monotonic():
            return
        found = (board or self._board).find_session(session)
        self.require_own(caller, found, board)
        if found.key == caller.line:
            if len(self._owned) >= CACHE_KEYS_MAX:
                self._owned.clear()
            self._owned[caller.key, session] = time.monotonic() + CACHE_SECONDS

    def require_own(self, caller: Caller, session: Session, board: Board | None = None) -> None:
        if caller.role != ADMIN and session.key != caller.line and not self.bind_sql_session(caller, session, board):
            raise Forbidden(f"session {session.id} was started with another key", session=session.id)

    def bind_sql_session(self, caller: Caller, session: Session, board: Board | None = None) -> bool:
        """Bind a session that the caller's agent made in SQL, where there are no keys, to the caller's key; return
        whether it is bound to that key now. The first key of the agent that uses the session keeps it while that key is
        valid; a key without an agent never gets it."""
        made_in_sql = session.kind == SQL and session.ended_at is None
        if not made_in_sql or session.agent != caller.agent or not api_keys.may(caller.role, AGENT):
            return False
        store = (board or self._board).store
        if session.key is not None and store.find_key(session.key) is not None:
            return False
        return store.take_up(session.id, key=caller.line, agent=session.agent).key == caller.line

    def require_kind(self, caller: Caller, kind: str | None) -> None:
        """A person's claims last for hours without a heartbeat, so a program's key must not pass for a person's."""
        if kind == PERSON and not api_keys.may(caller.role, PERSON):
            raise Forbidden(
                f"a session of kind {PERSON} needs a key of role {PERSON} or {ADMIN}; your key has role {caller.role}."
                f" dibs key create --role {PERSON} makes one",
                role=PERSON,
            )

    def require_free_id(self, caller: Caller, session: object) -> None:
        """A program that started the session in which a repository's place is kept could let dibs overlook it."""
        if caller.role != ADMIN and isinstance(session, str) and session.startswith(KEPT_PREFIXES):
            raise Forbidden("sessions of this name keep what GitHub said; choose another id", session=session)

    def agent_for(self, caller: Caller, name: str | None, default: str = "") -> str:
        """The agent of a new session. A key of one agent starts only that agent's sessions. A key without an agent
        starts those of agents that have no key: an agent's policy and limits belong to the holders of its key."""
        agent = name or caller.agent or default
        if caller.role != ADMIN and caller.agent is not None and agent != caller.agent:
            raise Forbidden(f"this key is for {caller.agent} and cannot start sessions of {agent}", agent=caller.agent)
        if caller.role != ADMIN and caller.agent is None:
            if agent == BOARD or agent.startswith(KEY_ACTOR_PREFIX):
                raise Forbidden(f"{agent} is a reserved name; choose another", agent=agent)
            # Revoked keys count, too: revoking its key must not open an agent to everyone.
            keys = self._board.keys()
            if agent in {key.agent for key in keys}:
                raise Forbidden(f"{agent} has a key of its own; use that key to start its sessions", agent=agent)
        return agent
