"""A small client of GitHub's REST API: pages, conditional requests, writes, rate limits, retries.

A request that GitHub has refused for its limits was not carried out, and is sent again. After an error of the server or
of the connection it may have been: only what can be repeated is sent again then. Whoever asks about one of many
subjects asks once (`once`): the others are served first.

An answer has to be whole within `ANSWER_SECONDS`, however its bytes arrive. The token goes to the API's own address and
nowhere else: a next page at another address is refused. It is in no message and no repr. GitHub redirects what is asked
of a repository by its former name: that is refused as `Moved`, because other answers have the new name.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import threading
import time
from urllib.parse import urlencode, urljoin, urlsplit

from dibs.errors import Forbidden, Invalid, ItemNotFound, StoreUnavailable
from dibs.github.budget import LIMIT_SECONDS_MAX, Budget, Limited, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any
    from urllib.parse import SplitResult

PUBLIC_URL = "https://api.github.com"
ENV_URL, ENV_TOKEN = "GITHUB_API_URL", "GITHUB_TOKEN"
VERSION = "2022-11-28"
TIMEOUT_SECONDS = 30.0
#: An answer that is not whole by then is cut off.
ANSWER_SECONDS = 30.0
ANSWER_BYTES_MAX = 50_000_000
PAGE_SIZE = 100
PAGES_MAX = 100
REDIRECTS_MAX = 3
ATTEMPTS_MAX = 4
BACKOFF_SECONDS = 1.0
#: Waits up to here are part of a request; for a longer one the caller decides.
WAIT_SECONDS_MAX = 10.0
#: What to wait if GitHub refuses for its limits and does not say how long.
LIMIT_SECONDS = 60.0
#: GitHub asks for this much time between two requests that change something.
WRITE_SECONDS = 1.0
#: What GitHub refuses for its limits with; 403 is also for what the token may not do.
LIMIT_STATUSES = (403, 429)
LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: How many ETags are kept, the latest.
ETAGS_MAX = 1000


class Failed(StoreUnavailable):
    """GitHub was reached and gave no usable answer to this request: an error of its own, no whole answer in time, or
    one that is no JSON. Other requests may be answered."""


class Moved(Invalid):
    """What was asked for is at another path: the repository has another name."""


class BadToken(Forbidden):
    """GitHub does not accept the token, whatever it is asked."""


class Api:
    def __init__(
        self,
        token: str | None,
        url: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
        budget: Budget | None = None,
    ) -> None:
        url = (url or os.environ.get(ENV_URL) or PUBLIC_URL).rstrip("/")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise Invalid(f"{ENV_URL} must be a URL such as {PUBLIC_URL}", field=ENV_URL)
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise Invalid(f"{ENV_URL} must begin with https://: the token would be sent in clear text", field=ENV_URL)
        self._url, self._origin, self._token, self._sleep = url, (parts.scheme, parts.netloc), token, sleep
        self._connection: http.client.HTTPConnection | None = None
        self._wrote_at = -WRITE_SECONDS
        #: The ETag of each answer, by its URL: an unchanged answer costs nothing of the rate limit.
        self.etags: dict[str, str] = {}
        #: Whether another page follows the one that was answered last.
        self.has_more = False
        #: What the token's user may still ask, for all clients with this token.
        self.budget = Budget() if budget is None else budget
        self._attempts = ATTEMPTS_MAX

    def pages(
        self,
        path: str,
        *,
        conditional: bool = True,
        is_whole: bool = False,
        query: Mapping[str, str | None] | None = None,
    ) -> Iterator[list[dict[str, Any]]]:
        """The pages of a list. There is none if the first page is the one that was answered last time, unless they are
        not asked for conditionally. `is_whole`: a change may be on a later page alone, so only a list of one page is
        asked for conditionally."""
        given = {name: value for name, value in {"per_page": PAGE_SIZE, **(query or {})}.items() if value is not None}
        url: str | None = f"{self._url}{path}" + (f"?{urlencode(given)}" if given else "")
        for number in range(PAGES_MAX):
            if url is None:
                return
            # Only the first page is asked for conditionally: the others follow from it.
            asked = url
            data, headers = self._call("GET", url, conditional=conditional and number == 0)
            if data is None:
                return
            found = _rows(data)
            url = self._next(url, headers.get("Link", ""))
            self.has_more = url is not None
            if is_whole and self.has_more:
                self.etags.pop(asked, None)
            yield [one for one in found if isinstance(one, dict)]

    def one(self, path: str) -> dict[str, Any]:
        return self._object(self._call("GET", self._url + path)[0], path)

    def moved(self, path: str) -> dict[str, Any]:
        """What is asked for, wherever it is by now."""
        return self._object(self._call("GET", self._url + path, follow=True)[0], path)

    @contextlib.contextmanager
    def once(self) -> Iterator[None]:
        """What fails is not sent again here: the caller does so after it has asked about everything else."""
        before, self._attempts = self._attempts, 1
        try:
            yield
        finally:
            self._attempts = before

    def write(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, repeatable: bool = True) -> Any:
        """Change something. `repeatable`: a second request has no effect. If one that is not ends in StoreUnavailable,
        the caller has to find out whether it was carried out."""
        wait = self._wrote_at + WRITE_SECONDS - time.monotonic()
        if wait > 0:
            self._sleep(wait)
        if not repeatable:
            self.close()  # a connection that GitHub has closed meanwhile would leave the outcome unknown
        try:
            sent = None if body is None else json.dumps(body).encode()
            return self._call(method, self._url + path, sent, repeatable=repeatable)[0]
        finally:
            self._wrote_at = time.monotonic()

    def forget(self, path: str) -> None:
        """Ask for the lists under this path anew: what they answered was not dealt with."""
        self.etags = {url: etag for url, etag in self.etags.items() if not url.startswith(self._url + path)}

    def another(self) -> Api:
        """One with a connection and ETags of its own: two readers of a list learn of each change."""
        return Api(self._token, self._url, self._sleep, self.budget)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _call(
        self,
        method: str,
        url: str,
        sent: bytes | None = None,
        *,
        conditional: bool = False,
        repeatable: bool = True,
        follow: bool = False,
    ) -> tuple[Any, Mapping[str, str]]:
        """The data, or None if it has not changed or there is none, and the headers."""
        status, why = 0, ""
        for attempt in range(ATTEMPTS_MAX):
            is_reused = self._connection is not None
            try:
                status, headers, body = self._ask(method, url, sent, conditional, follow)
                why = f"status {status}"
            except (OSError, http.client.HTTPException) as error:
                is_connected = self._connection is not None
                self.close()
                status, headers, body = (0 if is_connected else -1), {}, b""
                why = str(error)[:200] or type(error).__name__
                if isinstance(error, TimeoutError) and is_connected:
                    break  # another request would wait as long
            if status in (204, 304):
                return None, headers
            if status in (200, 201):
                return self._decoded(url, headers, body, conditional), headers
            wait = _wait_seconds(status, headers, body, attempt)
            if wait is None:
                raise _refusal(method, status, url, body)
            if wait > WAIT_SECONDS_MAX:
                raise Limited(
                    f"GitHub's rate limit is reached; it is free again in {wait:.0f} s", retry_after_seconds=round(wait)
                )
            if not repeatable and status not in LIMIT_STATUSES:
                break
            # GitHub may have closed a connection that was used before, whatever it was asked.
            is_stale = status == 0 and is_reused and attempt == 0
            if not is_stale:
                if attempt + 1 >= self._attempts and status not in LIMIT_STATUSES:
                    break
                self._sleep(wait)
        path = urlsplit(url).path
        if status in LIMIT_STATUSES:
            raise Limited("GitHub's rate limit is reached again and again", retry_after_seconds=round(LIMIT_SECONDS))
        kind, told = (StoreUnavailable, f"({why})") if status < 0 else (Failed, f"about {path} ({why})")
        raise kind(f"GitHub does not answer {told}", retry_after_seconds=round(LIMIT_SECONDS))

    def _ask(
        self, method: str, url: str, sent: bytes | None, conditional: bool, follow: bool
    ) -> tuple[int, Mapping[str, str], bytes]:
        """One request. Redirects within the API are followed only to learn where they lead."""
        first = url
        for _ in range(REDIRECTS_MAX):
            self.budget.check()
            response, body = self._exchange(method, url, sent, self.etags.get(first) if conditional else None)
            headers = {name.title(): value for name, value in response.getheaders()}
            self.budget.note(headers)
            if len(body) > ANSWER_BYTES_MAX:
                self.close()
                raise Invalid(f"an answer of GitHub has more than {ANSWER_BYTES_MAX} bytes", field="answer")
            if response.will_close:
                self.close()
            if response.status not in (301, 302, 307, 308):
                return response.status, headers, body
            url = self._within(urljoin(url, headers.get("Location", "")))
            if not follow:
                raise Moved(f"GitHub has moved {urlsplit(first).path}", field="repository")
        raise Invalid("GitHub redirects in a circle", field=ENV_URL)

    def _exchange(
        self, method: str, url: str, sent: bytes | None, etag: str | None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """The answer, whole within `ANSWER_SECONDS`: the time-out of a socket is for each of its reads alone."""
        parts = urlsplit(url)
        if self._connection is None:
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            made = kind(parts.netloc, timeout=min(TIMEOUT_SECONDS, ANSWER_SECONDS))
            made.connect()
            self._connection = made
        elif self._connection.sock is None:
            self._connection.connect()
        cut = threading.Event()
        timer = threading.Timer(ANSWER_SECONDS, _cut_off, [self._connection.sock, cut])
        timer.daemon = True
        timer.start()
        try:
            response = self._send(self._connection, method, parts, sent, etag)
            body = response.read(ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError: of a connection over TLS that was cut off.
            if cut.is_set() or isinstance(error, (TimeoutError, ValueError)):
                raise TimeoutError(f"no whole answer within {ANSWER_SECONDS:g} s") from error
            raise
        finally:
            timer.cancel()
        if cut.is_set():
            raise TimeoutError(f"no whole answer within {ANSWER_SECONDS:g} s")
        return response, body

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        parts: SplitResult,
        sent: bytes | None,
        etag: str | None,
    ) -> http.client.HTTPResponse:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": VERSION, "User-Agent": "dibs"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if etag is not None:
            headers["If-None-Match"] = etag
        if sent is not None:
            headers["Content-Type"] = "application/json"
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, target, body=sent, headers=headers)
        return connection.getresponse()

    def _object(self, found: object, path: str) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise Failed(f"GitHub's answer about {path} is no object", retry_after_seconds=round(LIMIT_SECONDS))
        return found

    def _decoded(self, url: str, headers: Mapping[str, str], body: bytes, conditional: bool) -> Any:
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Failed(
                f"GitHub's answer about {urlsplit(url).path} is not JSON: {error}",
                retry_after_seconds=round(LIMIT_SECONDS),
            ) from error
        if found is None:
            raise Failed(f"GitHub's answer about {urlsplit(url).path} is empty", retry_after_seconds=60)
        if conditional and "Etag" in headers:
            self.etags.pop(url, None)
            self.etags[url] = headers["Etag"]
            if len(self.etags) > ETAGS_MAX:
                del self.etags[next(iter(self.etags))]  # that of an older cursor, or of a commit that nobody waits for
        return found

    def _next(self, url: str, link: str) -> str | None:
        for one in link.split(","):
            target, _, rest = one.partition(";")
            if 'rel="next"' in rest:
                return self._within(urljoin(url, target.strip(" <>")))
        return None

    def _within(self, url: str) -> str:
        parts = urlsplit(url)
        if (parts.scheme, parts.netloc) != self._origin:
            raise Invalid("GitHub's answer leads to another address, which does not get the token", field=ENV_URL)
        return url


def find_token() -> str | None:
    """The token of the environment, or that of the program `gh`, if it has one."""
    import subprocess

    given = os.environ.get(ENV_TOKEN, "").strip()
    if given:
        return _sound(given, f"{ENV_TOKEN} has characters that no token has; set it to one line of letters")
    try:
        done = subprocess.run(["gh", "auth", "token"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None  # ValueError: its output is no text
    # What follows the first line is for people, such as that there is a newer version.
    told = done.stdout.strip().partition("\n")[0].strip() if done.returncode == 0 else ""
    return _sound(told, f"gh auth token prints no token; set {ENV_TOKEN}, or type: gh auth login") if told else None


def _sound(token: str, problem: str) -> str:
    """A header with anything else would be refused by an error that shows it."""
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise Invalid(problem, field=ENV_TOKEN)
    return token


def _cut_off(connection: socket.socket, cut: threading.Event) -> None:
    """End the reads of another thread."""
    cut.set()
    with contextlib.suppress(OSError):
        # That of the class: over TLS, the method of the same name changes what the other thread reads from.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _rows(data: object) -> list[Any]:
    """The entries of a page: of an object, the list that it has."""
    if isinstance(data, list):
        return data
    found = next((one for one in data.values() if isinstance(one, list)), None) if isinstance(data, dict) else None
    if found is None:
        raise Failed("GitHub's answer is no list", retry_after_seconds=round(LIMIT_SECONDS))
    return found


def _wait_seconds(status: int, headers: Mapping[str, str], body: bytes, attempt: int) -> float | None:
    """How long to wait before another attempt; None if another one would not help."""
    if status in LIMIT_STATUSES:
        after, reset = headers.get("Retry-After", ""), headers.get("X-Ratelimit-Reset", "")
        if after.isdigit():
            return min(float(after), LIMIT_SECONDS_MAX)
        if headers.get("X-Ratelimit-Remaining") == "0" and reset.isdigit():
            return min(max(1.0, int(reset) - clock(headers)), LIMIT_SECONDS_MAX)
        # A secondary limit may come without any header; what the token may not read says something else.
        return LIMIT_SECONDS if status == 429 or b"rate limit" in body[:1000].lower() else None
    if status <= 0 or status >= 500:
        return BACKOFF_SECONDS * 2.0**attempt * random.uniform(0.5, 1.0)
    return None


def _refusal(method: str, status: int, url: str, body: bytes) -> Exception:
    path = urlsplit(url).path
    try:
        message = str(json.loads(body)["message"])[:200]
    except (ValueError, TypeError, LookupError):
        message = f"status {status}"
    if status == 401:
        return BadToken(f"GitHub does not accept the token; set {ENV_TOKEN}, or type: gh auth login", field=ENV_TOKEN)
    if status == 403:
        verb = "read" if method == "GET" else "write to"
        return Forbidden(f"the token may not {verb} {path}: {message}", field=ENV_TOKEN, method=method)
    if status in (404, 410):
        return ItemNotFound(f"GitHub has no {path}, or the token may not see it", item=path)
    return Invalid(f"GitHub refuses {path}: {message}", field="repository")
