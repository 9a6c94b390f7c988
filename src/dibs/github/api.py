"""A small client of GitHub's REST API: pages, conditional requests, writes, rate limits, retries.

A request that GitHub has refused for its limits was not carried out, and is sent again. After an error of the server or
of the connection it may have been: only what can be repeated is sent again then.

The token goes to the API's own address and nowhere else: a redirect or a next page at another address is refused. It is
in no message and no repr.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import time
from urllib.parse import urlencode, urljoin, urlsplit

from dibs.errors import Forbidden, Invalid, ItemNotFound, StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

PUBLIC_URL = "https://api.github.com"
ENV_URL, ENV_TOKEN = "GITHUB_API_URL", "GITHUB_TOKEN"
VERSION = "2022-11-28"
TIMEOUT_SECONDS = 30.0
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
#: When GitHub may only be called again in a long time, look again after this long.
LIMIT_SECONDS_MAX = 3600.0
#: What GitHub refuses for its limits with; 403 is also for what the token may not do.
LIMIT_STATUSES = (403, 429)
LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: How many ETags are kept, the latest.
ETAGS_MAX = 1000


class Limited(StoreUnavailable):
    """GitHub's rate limit is reached; `retry_after_seconds` says for how long."""


class Api:
    def __init__(self, token: str | None, url: str | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
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

    def pages(
        self, path: str, *, conditional: bool = True, **query: str | int | None
    ) -> Iterator[list[dict[str, Any]]]:
        """The pages of a list. There is none if the first page is the one that was answered last time, unless they are
        not asked for conditionally."""
        given = {name: value for name, value in {"per_page": PAGE_SIZE, **query}.items() if value is not None}
        url: str | None = f"{self._url}{path}" + (f"?{urlencode(given)}" if given else "")
        for number in range(PAGES_MAX):
            if url is None:
                return
            # Only the first page is asked for conditionally: the others follow from it.
            data, headers = self._call("GET", url, conditional=conditional and number == 0)
            if data is None:
                return
            found = data if isinstance(data, list) else next((v for v in data.values() if isinstance(v, list)), [])
            url = self._next(url, headers.get("Link", ""))
            self.has_more = url is not None
            yield [one for one in found if isinstance(one, dict)]

    def one(self, path: str) -> Any:
        return self._call("GET", self._url + path)[0]

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
        return Api(self._token, self._url, self._sleep)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _call(
        self, method: str, url: str, sent: bytes | None = None, *, conditional: bool = False, repeatable: bool = True
    ) -> tuple[Any, Mapping[str, str]]:
        """The data, or None if it has not changed or there is none, and the headers."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                status, headers, body = self._ask(method, url, sent, conditional)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                status, headers, body = 0, {}, str(error).encode()
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
            self._sleep(wait)
        raise StoreUnavailable(
            f"GitHub does not answer ({f'status {status}' if status else body.decode(errors='replace')[:200]})",
            retry_after_seconds=round(LIMIT_SECONDS),
        )

    def _ask(
        self, method: str, url: str, sent: bytes | None, conditional: bool
    ) -> tuple[int, Mapping[str, str], bytes]:
        """One request; redirects within the API are followed, as of a repository that was renamed."""
        first = url
        for _ in range(REDIRECTS_MAX):
            response = self._send(method, url, sent, self.etags.get(first) if conditional else None)
            body = response.read(ANSWER_BYTES_MAX + 1)
            headers = {name.title(): value for name, value in response.getheaders()}
            if len(body) > ANSWER_BYTES_MAX:
                raise Invalid(f"an answer of GitHub has more than {ANSWER_BYTES_MAX} bytes", field="answer")
            if response.will_close:
                self.close()
            if response.status not in (301, 302, 307, 308):
                return response.status, headers, body
            url = self._within(urljoin(url, headers.get("Location", "")))
        raise Invalid("GitHub redirects in a circle", field=ENV_URL)

    def _send(self, method: str, url: str, sent: bytes | None, etag: str | None) -> http.client.HTTPResponse:
        parts = urlsplit(url)
        if self._connection is None:
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(parts.netloc, timeout=TIMEOUT_SECONDS)
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": VERSION, "User-Agent": "dibs"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if etag is not None:
            headers["If-None-Match"] = etag
        if sent is not None:
            headers["Content-Type"] = "application/json"
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self._connection.request(method, target, body=sent, headers=headers)
        return self._connection.getresponse()

    def _decoded(self, url: str, headers: Mapping[str, str], body: bytes, conditional: bool) -> Any:
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise StoreUnavailable(f"GitHub's answer is not JSON: {error}", retry_after_seconds=60) from error
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
    if given and not (given.isascii() and given.isprintable() and " " not in given):
        # A header with it would be refused by an error that shows it.
        raise Invalid(f"{ENV_TOKEN} has characters that no token has; set it to one line of letters", field=ENV_TOKEN)
    if given:
        return given
    try:
        done = subprocess.run(["gh", "auth", "token"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 and done.stdout.strip() else None


def _wait_seconds(status: int, headers: Mapping[str, str], body: bytes, attempt: int) -> float | None:
    """How long to wait before another attempt; None if another one would not help."""
    if status in LIMIT_STATUSES:
        after, reset = headers.get("Retry-After", ""), headers.get("X-Ratelimit-Reset", "")
        if after.isdigit():
            return min(float(after), LIMIT_SECONDS_MAX)
        if headers.get("X-Ratelimit-Remaining") == "0" and reset.isdigit():
            return min(max(1.0, int(reset) - _clock(headers)), LIMIT_SECONDS_MAX)
        # A secondary limit may come without any header; what the token may not read says something else.
        return LIMIT_SECONDS if status == 429 or b"rate limit" in body[:1000].lower() else None
    if status == 0 or status >= 500:
        return BACKOFF_SECONDS * 2.0**attempt * random.uniform(0.5, 1.0)
    return None


def _clock(headers: Mapping[str, str]) -> float:
    """The time as GitHub has it: the clock of this machine may be off."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(headers.get("Date", "")).timestamp()
    except (ValueError, OverflowError):
        return time.time()


def _refusal(method: str, status: int, url: str, body: bytes) -> Exception:
    path = urlsplit(url).path
    try:
        message = str(json.loads(body)["message"])[:200]
    except (ValueError, TypeError, LookupError):
        message = f"status {status}"
    if status == 401:
        return Forbidden(f"GitHub does not accept the token; set {ENV_TOKEN}, or type: gh auth login", field=ENV_TOKEN)
    if status == 403:
        verb = "read" if method == "GET" else "write to"
        return Forbidden(f"the token may not {verb} {path}: {message}", field=ENV_TOKEN, method=method)
    if status in (404, 410):
        return ItemNotFound(f"GitHub has no {path}, or the token may not see it", item=path)
    return Invalid(f"GitHub refuses {path}: {message}", field="repository")
