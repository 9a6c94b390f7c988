"""The client of GitHub's API on the stand-in without a connection, for many histories; and a GitHub that delivers
webhooks whenever it likes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dibs.github.api import Api, Moved
from tests.github.fake_writes import WritableApi

if TYPE_CHECKING:
    from collections.abc import Mapping


class Direct(Api):
    """The whole client but its connection."""

    def __init__(self, fake: WritableApi) -> None:
        super().__init__("token", fake.url, sleep=lambda _: None)
        self._fake = fake

    def another(self) -> Direct:
        return Direct(self._fake)

    def write(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, repeatable: bool = True) -> Any:
        self._wrote_at = float("-inf")  # nobody waits between two writes
        return super().write(method, path, body, repeatable=repeatable)

    def _ask(
        self, method: str, url: str, sent: bytes | None, conditional: bool, follow: bool
    ) -> tuple[int, Mapping[str, str], bytes]:
        self.budget.check()
        parts = urlsplit(url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        headers = {"If-None-Match": self.etags[url]} if conditional and url in self.etags else {}
        status, more, body = self._fake.answer(target, headers, method, sent or b"")
        told = {name.title(): value for name, value in more.items()}
        if status == 301:
            if not follow:
                raise Moved("moved", field="repository")
            return self._ask(method, told["Location"], sent, conditional, follow)
        return status, told, body


def close(fake: WritableApi) -> None:
    """A stand-in that nobody has connected to."""
    fake._server.server_close()
