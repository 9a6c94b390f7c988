"""`POST /webhooks/github`: a delivery of GitHub's webhook becomes verbs on the board.

A delivery needs no key: its signature over the raw bytes, with a secret that only GitHub and this server know, is what
admits it. Size and signature are checked before anything is parsed. Without a secret there is no such route.
"""

from __future__ import annotations

import hmac
import logging
import re
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dibs.errors import Invalid, StoreUnavailable, Unauthenticated
from dibs.github import delivery as deliveries
from dibs.github import follow
from dibs.github.intake import Intake
from dibs.server.api import bodies
from dibs.server.api.responses import answer
from dibs.server.service import Service
from dibs.store.contract import Watch

PATH = "/webhooks/github"
SIGNATURE, DELIVERY, EVENT = "x-hub-signature-256", "x-github-delivery", "x-github-event"
#: The longest time between two looks for submitted results, if no wake-up tells of them.
SETTLE_SECONDS = 5.0
_DELIVERY = re.compile(r"[A-Za-z0-9-]{1,64}")
_SIGNATURE = re.compile(r"sha256=[0-9a-f]{64}")


def routes(service: Service, intake: Intake) -> APIRouter:
    router = APIRouter()
    service.in_background.append(lambda watch: _settle(service, intake, watch))

    # Not in the OpenAPI document: GitHub describes its webhooks.
    @router.post(PATH, include_in_schema=False)
    async def webhook(request: Request) -> Response:
        signature = _signature(request)
        data = await bodies.read_signed(
            service.long_work,
            request,
            intake.policy.webhook_bytes_max,
            lambda body: _require_signature(body, signature, intake.secrets),
        )
        delivery, event = _header(request, DELIVERY), _header(request, EVENT)
        if not _DELIVERY.fullmatch(delivery):
            raise Invalid("X-GitHub-Delivery must be the id of a delivery", field=DELIVERY)
        return answer(await service.run(lambda: _apply(service, intake, event, delivery, data)))

    return router


def _apply(service: Service, intake: Intake, event: str, delivery: str, data: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"subject": None, "item": None, "did": [], "why": "it is about nothing that dibs follows"}
    if event == "ping":
        return {**nothing, "why": "pong"}
    found = deliveries.apply(service.board, intake.policy, event, data, delivery)
    return nothing if found is None else {**found.as_dict(), "did": list(found.did)}


def _settle(service: Service, intake: Intake, watch: Watch) -> None:
    """Decide about results as they are submitted: their pull requests may have been merged before."""
    after: int | None = None
    while not service.feed.stopping:
        try:
            after = follow.settle_changed(service.board, intake.policy, after)
            watch.wait(SETTLE_SECONDS)
        except Exception as error:
            # A failure about one item must not stop the decisions about all others. The log says by itself that the
            # store is unavailable.
            if not isinstance(error, StoreUnavailable):
                logging.exception("a result could not be decided about; retrying")
            after = None
            service.feed.wait_for_stop(SETTLE_SECONDS)


def _signature(request: Request) -> str:
    """The header, checked before the body is read. The SHA-1 that GitHub also sends is not accepted."""
    given = _header(request, SIGNATURE)
    if not _SIGNATURE.fullmatch(given):
        raise Unauthenticated("a delivery needs X-Hub-Signature-256: set the webhook's secret on GitHub")
    return given


def _header(request: Request, name: str) -> str:
    """Empty if it is there twice: a proxy may have looked at the other one."""
    found = request.headers.getlist(name)
    return found[0] if len(found) == 1 else ""


def _require_signature(body: bytearray, signature: str, secrets: tuple[bytes, ...]) -> None:
    matches = [
        hmac.compare_digest(f"sha256={hmac.new(secret, body, 'sha256').hexdigest()}", signature) for secret in secrets
    ]
    # Every secret is tried, so that the time of a refusal does not tell which one is in use.
    if not any(matches):
        raise Unauthenticated("the signature of this delivery is made with another secret, or of other bytes")
