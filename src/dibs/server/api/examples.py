"""For each verb an example of its body, or of its query, which can be sent as it stands to a board with these items."""

from __future__ import annotations

from typing import Any

ME = "coder-1"
HELD = {"session": ME, "token": 1}

EXAMPLES: dict[str, dict[str, Any]] = {
    "add": {"id": "fix-login", "title": "Fix the login", "type": "bug", "priority": 8, "labels": ["web"]},
    "add_many": {"items": [{"id": "plan", "title": "Plan"}, {"id": "build", "title": "Build", "depends_on": ["plan"]}]},
    "list": {"statuses": ["ready"], "limit": 50},
    "edit": {"priority": 9},
    "park": {"reason": "later"},
    "cancel": {"reason": "a duplicate"},
    "retry": {"reason": "the network is back"},
    "approve": {"comment": "go ahead", "revision": 4},
    "send_back": {"comment": "shorter, please"},
    "reject": {**HELD, "reason": "we do not do that"},
    "annotate": {"session": ME, "links": {"pr": "https://example.org/pull/7"}, "checks": {"ci": "passed"}},
    "force_release": {"reason": "its machine is gone"},
    "set_agent": {"types": ["bug"], "max_claims": 2},
    "start_session": {"agent": "coder", "id": ME, "kind": "autonomous"},
    "sessions": {"ended": False},
    "claim": {"session": ME},
    "recover": HELD,
    "next": {"session": ME, "types": ["bug"], "n": 1},
    "heartbeat": {"session": ME, "holding": {"fix-login": 1}},
    "renew": HELD,
    "progress": {**HELD, "note": "the cause is in auth.py"},
    "release": {**HELD, "reason": "needs a designer"},
    "done": {**HELD, "links": {"pr": "https://example.org/pull/7"}},
    "done_many": {"session": ME, "holding": {"fix-login": 1}},
    "fail": {**HELD, "reason": "cannot be reproduced"},
    "submit": {**HELD, "draft": "Dear customer, ..."},
    "sweep": {"limit": 100},
    "wait": {"session": ME, "ttl_seconds": 60},
    "leave": {"session": ME},
    "ticket": {"session": ME},
    "soft_claim": {"session": ME},
    "soft_release": {"session": ME},
    "why": {"session": ME},
    "events": {"after": 0, "limit": 100},
    "runs": {"agent": "coder", "limit": 20},
    "activity": {"limit": 20},
}
