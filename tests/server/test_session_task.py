"""The session-task contract over HTTP: its own examples as requests and replies, every code, and who may act for whom.

Where the source shows a body, the whole body is compared; only ids, and times by the board's clock, are put in.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dibs.errors import DibsError, ItemAlreadyClaimed
from dibs.model import Event, Owner
from dibs.server.compat import session_task_models as models
from dibs.server.compat import session_task_views as views
from dibs.text import times
from tests.kit.owners import found_dead
from tests.server.calling import Caller, Reply, Served

ME, OTHER = "session-abc-123", "session-xyz-789"
TASK = "hierarchy-phase4-metrics"
TITLE = "Phase 4: Delegation Metrics"
MINUTE = 60
HALF_AN_HOUR_MS = 1_800_000
CLAIMERS = 10
#: The source's table of codes.
STATUSES = {
    "TASK_NOT_FOUND": 404,
    "SESSION_NOT_FOUND": 404,
    "TASK_ALREADY_CLAIMED": 409,
    "TASK_NOT_CLAIMED": 404,
    "TASK_NOT_CLAIMABLE": 400,
    "NOT_CLAIM_OWNER": 403,
    "CLAIM_EXPIRED": 410,
}


@pytest.fixture
def coder(server: Served) -> Caller:
    """An agent's caller, with the two sessions of the source's examples and its task."""
    coder = server.caller("agent", "coder")
    for session in (ME, OTHER):
        assert register(coder, session).status == 200
    server.board.add(TITLE, id=TASK, phase="implementation", priority="medium")
    return coder


def register(caller: Caller, session: str, **more: Any) -> Reply:
    return caller.post("/api/sessions", {"sessionId": session, "agentType": "autonomous", **more})


def claim(caller: Caller, task: str = TASK, session: str = ME, **more: Any) -> Reply:
    return caller.post(f"/api/tasks/{task}/claim", {"sessionId": session, **more})


def release(caller: Caller, task: str = TASK, session: str = ME, **more: Any) -> Reply:
    return caller.post(f"/api/tasks/{task}/release", {"sessionId": session, **more})


def heartbeat(caller: Caller, task: str = TASK, session: str = ME, **more: Any) -> Reply:
    return caller.post(f"/api/tasks/{task}/claim/heartbeat", {"sessionId": session, **more})


def at(server: Served, seconds: float = 0) -> str:
    """An instant by the board's clock, so many seconds from now."""
    return times.iso(server.clock.now() + round(seconds * 1000))


def refused(reply: Reply, code: str, status: int | None = None) -> dict[str, Any]:
    models.TaskRefusal.model_validate(reply.body)
    assert (reply.status, reply.body["error"], reply.body["success"]) == (status or STATUSES[code], code, False)
    assert reply.headers["content-type"] == "application/json"
    found: dict[str, Any] = reply.body
    return found


class TestTheSourcesExamples:
    def test_a_claim(self, server: Served, coder: Caller) -> None:
        reply = claim(coder, ttlMs=HALF_AN_HOUR_MS, agentType="autonomous")
        assert reply.status == 200
        assert reply.body == {
            "success": True,
            "claim": {
                "taskId": TASK,
                "sessionId": ME,
                "claimedAt": at(server),
                "expiresAt": at(server, 30 * MINUTE),
            },
        }

    def test_a_claim_of_what_another_session_has(self, server: Served, coder: Caller) -> None:
        claimed_at = at(server)
        claim(coder, session=OTHER, ttlMs=HALF_AN_HOUR_MS)
        server.clock.advance(15 * MINUTE)
        reply = claim(coder, ttlMs=HALF_AN_HOUR_MS, agentType="autonomous")
        assert reply.status == 409
        assert reply.body == {
            "success": False,
            "error": "TASK_ALREADY_CLAIMED",
            "claim": {"sessionId": OTHER, "claimedAt": claimed_at, "remainingMs": 900000},
        }

    def test_a_release(self, server: Served, coder: Caller) -> None:
        claim(coder, ttlMs=2 * HALF_AN_HOUR_MS)
        server.clock.advance(30 * MINUTE)
        reply = release(coder, reason="completed")
        assert reply.status == 200
        assert reply.body == {
            "success": True,
            "released": {"taskId": TASK, "reason": "completed", "claimDuration": 1800000},
        }

    def test_a_heartbeat(self, server: Served, coder: Caller) -> None:
        claim(coder, ttlMs=HALF_AN_HOUR_MS)
        for _ in range(2):
            server.clock.advance(10 * MINUTE)
            heartbeat(coder, extendMs=HALF_AN_HOUR_MS)
        server.clock.advance(10 * MINUTE)
        reply = heartbeat(coder, extendMs=HALF_AN_HOUR_MS)
        assert reply.status == 200
        assert reply.body == {"success": True, "claim": {"expiresAt": at(server, 30 * MINUTE), "heartbeatCount": 3}}

    def test_what_is_in_flight(self, server: Served, coder: Caller) -> None:
        claim(coder, ttlMs=HALF_AN_HOUR_MS, agentType="autonomous")
        reply = coder.get("/api/tasks/in-flight")
        assert reply.status == 200
        assert reply.body == {
            "inFlight": [
                {
                    "taskId": TASK,
                    "task": {"title": TITLE, "phase": "implementation", "priority": "medium"},
                    "claim": {
                        "sessionId": ME,
                        "claimedAt": at(server),
                        "expiresAt": at(server, 30 * MINUTE),
                        "agentType": "autonomous",
                        "healthStatus": "healthy",
                    },
                }
            ],
            "summary": {"total": 1, "bySession": {ME: 1}},
        }

    def test_the_current_task_of_a_session(self, server: Served, coder: Caller) -> None:
        claimed_at = at(server)
        claim(coder, ttlMs=HALF_AN_HOUR_MS)
        server.clock.advance(26 * MINUTE)
        reply = coder.get(f"/api/sessions/{ME}/current-task")
        assert reply.status == 200
        assert reply.body == {
            "sessionId": ME,
            "currentTask": {
                "taskId": TASK,
                "title": TITLE,
                "claim": {"claimedAt": claimed_at, "remainingMs": 240000},
            },
        }

    def test_a_claim_in_the_history_of_a_session(self, server: Served, coder: Caller) -> None:
        claimed_at = at(server)
        claim(coder, ttlMs=4 * HALF_AN_HOUR_MS)
        server.clock.advance(105 * MINUTE)
        release(coder, reason="completed")
        (mine,) = [one for one in coder.get("/api/sessions/summary").body["sessions"] if one["sessionId"] == ME]
        assert mine["claimHistory"] == [
            {
                "taskId": TASK,
                "claimedAt": claimed_at,
                "releasedAt": at(server),
                "releaseReason": "completed",
                "duration": 6300000,
            }
        ]


class TestCodes:
    """Each of the seven, under its status."""

    def test_a_task_that_is_not_there(self, coder: Caller) -> None:
        for call in (claim, release, heartbeat):
            assert "nothing" in refused(call(coder, "nothing"), "TASK_NOT_FOUND")["message"]

    def test_a_session_that_is_not_there(self, server: Served, coder: Caller) -> None:
        for caller in (coder, server.admin):
            for call in (claim, release, heartbeat):
                refused(call(caller, session="nobody"), "SESSION_NOT_FOUND")
            refused(caller.get("/api/sessions/nobody/current-task"), "SESSION_NOT_FOUND")

    def test_a_session_that_has_ended(self, server: Served, coder: Caller) -> None:
        claim(coder)
        server.board.end_session(ME)
        for caller in (coder, server.admin):
            for call in (claim, release, heartbeat):
                refused(call(caller), "SESSION_NOT_FOUND")
            refused(caller.get(f"/api/sessions/{ME}/current-task"), "SESSION_NOT_FOUND")

    def test_a_task_that_another_session_has(self, coder: Caller) -> None:
        claim(coder, session=OTHER)
        refused(claim(coder), "TASK_ALREADY_CLAIMED")
        refused(release(coder), "NOT_CLAIM_OWNER")
        refused(heartbeat(coder), "NOT_CLAIM_OWNER")

    def test_a_task_that_nobody_has(self, coder: Caller) -> None:
        refused(release(coder), "TASK_NOT_CLAIMED")
        refused(heartbeat(coder), "TASK_NOT_CLAIMED")

    def test_a_task_that_cannot_be_claimed(self, server: Served, coder: Caller) -> None:
        server.board.add("Later", id="blocked", depends_on=[TASK])
        assert TASK in refused(claim(coder, "blocked"), "TASK_NOT_CLAIMABLE")["message"]
        claim(coder)
        release(coder, reason="completed")
        refused(claim(coder), "TASK_NOT_CLAIMABLE")

    def test_a_claim_whose_time_is_over(self, server: Served, coder: Caller) -> None:
        claim(coder, ttlMs=60000)
        server.clock.advance(MINUTE)
        refused(heartbeat(coder), "CLAIM_EXPIRED")
        refused(release(coder, reason="completed"), "CLAIM_EXPIRED")
        assert server.board.get(TASK).item.status != "done"

    def test_limits_of_the_board_are_told_in_the_same_shape(self, server: Served, coder: Caller) -> None:
        server.board.set_agent("coder", max_claims=1)
        server.board.add("Another", id="another")
        claim(coder)
        full = claim(coder, "another")
        refused(full, "AGENT_AT_CAPACITY", 409)
        assert int(full.headers["retry-after"]) > 0


class TestInput:
    def test_what_is_missing_or_of_another_type_is_named(self, coder: Caller) -> None:
        for body in ({}, {"sessionId": 5}, {"sessionId": None}):
            reply = coder.post(f"/api/tasks/{TASK}/claim", body)
            assert refused(reply, "INVALID", 422)["message"].startswith("sessionId: ")
        for ttl in (0, -1, "30m", True, 1e300):
            assert refused(claim(coder, ttlMs=ttl), "INVALID", 422)["message"].startswith("ttlMs: ")

    @pytest.mark.parametrize(
        "body", [b"{", b"", b"[]", b"\xff", b"nothing", b"[" * 100_000, b'{"sessionId": "\\ud800"}']
    )
    def test_a_body_that_makes_no_sense(self, coder: Caller, body: bytes) -> None:
        refused(coder.ask("POST", f"/api/tasks/{TASK}/claim", body), "INVALID", 422)

    def test_a_ttl_out_of_the_bounds_of_the_board(self, server: Served, coder: Caller) -> None:
        """The source's minTTL and maxTTL are what a board starts with."""
        for ttl in (59_999, 7_200_001):
            refused(claim(coder, ttlMs=ttl), "INVALID", 422)
        for ttl in (60_000, 7_200_000):
            assert claim(coder, ttlMs=ttl).body["claim"]["expiresAt"] == at(server, ttl / 1000)
            assert heartbeat(coder, extendMs=ttl).body["claim"]["expiresAt"] == at(server, ttl / 1000)
        refused(heartbeat(coder, extendMs=59_999), "INVALID", 422)

    def test_fields_that_are_not_known_are_passed_over(self, coder: Caller) -> None:
        assert claim(coder, metadata={"a": 1}).status == 200

    def test_a_body_that_is_no_json_at_all_does_not_get_in(self, coder: Caller) -> None:
        reply = coder.ask("POST", f"/api/tasks/{TASK}/claim", b"sessionId=x", Content_Type="text/plain")
        assert (reply.status, reply.headers["content-type"]) == (415, "application/problem+json")


class TestClaiming:
    def test_the_default_is_half_an_hour(self, server: Served, coder: Caller) -> None:
        assert claim(coder).body["claim"]["expiresAt"] == at(server, 30 * MINUTE)

    def test_claiming_again_renews(self, server: Served, coder: Caller) -> None:
        first = claim(coder).body["claim"]
        server.clock.advance(10 * MINUTE)
        again = claim(coder).body["claim"]
        assert again == {**first, "expiresAt": at(server, 30 * MINUTE)}

    def test_what_expired_is_free(self, server: Served, coder: Caller) -> None:
        claim(coder, ttlMs=60000)
        server.clock.advance(MINUTE)
        assert claim(coder, session=OTHER).body["claim"]["sessionId"] == OTHER

    def test_ten_sessions_claim_one_task_and_one_has_it(self, server: Served, coder: Caller) -> None:
        sessions = [f"session-{number}" for number in range(CLAIMERS)]
        for session in sessions:
            register(coder, session)
        with ThreadPoolExecutor(CLAIMERS) as pool:
            replies = list(pool.map(lambda session: claim(coder, session=session), sessions))
        assert sorted(reply.status for reply in replies) == [200] + [409] * (CLAIMERS - 1)
        (winner,) = [reply.body["claim"]["sessionId"] for reply in replies if reply.status == 200]
        assert {reply.body["claim"]["sessionId"] for reply in replies} == {winner}
        assert coder.get("/api/tasks/in-flight").body["summary"] == {"total": 1, "bySession": {winner: 1}}

    def test_an_idempotency_key_answers_again_what_was_answered(self, server: Served, coder: Caller) -> None:
        claim(coder)
        path, body = f"/api/tasks/{TASK}/release", {"sessionId": ME, "reason": "completed"}
        first, again = (coder.post(path, body, Idempotency_Key="once") for _ in range(2))
        assert first.body == again.body
        refused(coder.post(path, body), "TASK_NOT_CLAIMED")


class TestReleasing:
    @pytest.mark.parametrize(
        ("reason", "status", "outcome"),
        [
            ("completed", "done", "done"),
            ("failed", "failed", "failed"),
            ("error", "failed", "failed"),
            ("manual", "ready", "released"),
            ("Completed", "ready", "released"),
        ],
    )
    def test_the_reason_says_how_it_ends(
        self, server: Served, coder: Caller, reason: str, status: str, outcome: str
    ) -> None:
        claim(coder)
        assert release(coder, reason=reason).body["released"]["reason"] == reason
        detail = server.board.get(TASK)
        assert (detail.item.status, detail.runs[0].outcome) == (status, outcome)

    def test_without_a_reason_it_is_given_back(self, server: Served, coder: Caller) -> None:
        claim(coder)
        assert release(coder).body["released"]["reason"] == "released"
        assert server.board.get(TASK).item.status == "ready"


class TestOwnership:
    """A caller acts for the sessions that its key registered; an admin for any."""

    def test_another_key_does_not_act_for_a_session(self, server: Served, coder: Caller) -> None:
        claim(coder)
        thief = server.caller("agent", "coder")
        for call in (claim, release, heartbeat):
            refused(call(thief), "FORBIDDEN", 403)
        refused(register(thief, ME), "FORBIDDEN", 403)
        assert server.board.get(TASK).item.status == "in_progress"

    def test_an_admin_acts_for_any_session(self, server: Served, coder: Caller) -> None:
        assert claim(server.admin).status == 200
        assert heartbeat(coder).status == 200
        assert release(server.admin, reason="manual").status == 200

    def test_a_viewer_sees_and_changes_nothing(self, server: Served, coder: Caller) -> None:
        viewer = server.caller("viewer")
        for path in ("tasks/in-flight", "tasks/claims/stats", "sessions/summary", f"sessions/{ME}/current-task"):
            assert viewer.get(f"/api/{path}").status == 200
        for call in (claim, release, heartbeat):
            refused(call(viewer), "FORBIDDEN", 403)
        refused(register(viewer, "mine"), "FORBIDDEN", 403)
        refused(viewer.post("/api/tasks/claims/cleanup"), "FORBIDDEN", 403)

    def test_a_stranger_is_told_so_in_the_same_shape(self, server: Served, coder: Caller) -> None:
        reply = claim(server.stranger)
        refused(reply, "UNAUTHENTICATED", 401)
        assert reply.headers["www-authenticate"].startswith("Bearer")
        refused(server.stranger.get("/api/tasks/in-flight"), "UNAUTHENTICATED", 401)

    def test_an_agents_key_registers_no_session_of_another_agent(self, coder: Caller) -> None:
        refused(register(coder, "mine", agent="boss"), "FORBIDDEN", 403)


class TestRegistering:
    def test_a_session_tells_who_it_is(self, server: Served) -> None:
        reply = server.caller("agent", "coder").post(
            "/api/sessions", {"id": ME, "agentType": "cli", "project": "shop", "contextPercent": 67, "meta": {"pid": 7}}
        )
        models.Registered.model_validate(reply.body)
        assert reply.body == {
            "success": True,
            "sessionId": ME,
            "session": {
                "sessionId": ME,
                "agent": "coder",
                "agentType": "cli",
                "meta": {"pid": 7, "project": "shop", "contextPercent": 67},
                "startedAt": at(server),
                "lastSeenAt": at(server),
            },
        }

    def test_without_an_id_it_gets_one(self, server: Served) -> None:
        caller = server.caller("agent", "coder")
        first, second = (caller.post("/api/sessions", {}).body["sessionId"] for _ in range(2))
        assert first != second
        assert server.board.find_session(first).kind == "autonomous"

    def test_registering_again_is_the_same_session(self, server: Served, coder: Caller) -> None:
        claim(coder)
        assert register(coder, ME, contextPercent=40, meta={"pid": 7}).body["session"]["meta"] == {
            "pid": 7,
            "contextPercent": 40,
        }
        assert register(coder, ME, contextPercent=67).body["session"]["meta"] == {"contextPercent": 67}
        assert register(coder, ME).body["session"]["meta"] == {"contextPercent": 67}
        assert heartbeat(coder).status == 200

    def test_without_an_agent_it_is_called_as_its_type(self, server: Served) -> None:
        reply = register(server.caller("agent"), ME)
        assert reply.body["session"]["agent"] == "autonomous"

    def test_two_ids_are_one_too_many(self, server: Served) -> None:
        refused(server.admin.post("/api/sessions", {"id": "a", "sessionId": "b"}), "INVALID", 422)

    def test_a_name_that_is_none_is_refused(self, server: Served) -> None:
        refused(server.admin.post("/api/sessions", {"sessionId": "a b"}), "INVALID", 422)


class TestShowing:
    def test_what_is_in_flight_of_one_session(self, server: Served, coder: Caller) -> None:
        server.board.add("Another", id="another", priority="high")
        claim(coder)
        claim(coder, "another", OTHER)
        both = coder.get("/api/tasks/in-flight").body
        assert both["summary"] == {"total": 2, "bySession": {ME: 1, OTHER: 1}}
        his = coder.get(f"/api/tasks/in-flight?sessionId={OTHER}").body
        assert [(one["taskId"], one["task"]["priority"]) for one in his["inFlight"]] == [("another", "high")]
        assert his["summary"] == {"total": 1, "bySession": {OTHER: 1}}
        assert coder.get("/api/tasks/in-flight?sessionId=nobody").body["summary"] == {"total": 0, "bySession": {}}

    def test_what_has_expired_is_shown_if_asked_for(self, server: Served, coder: Caller) -> None:
        claimed_at = at(server)
        claim(coder, ttlMs=60000)
        server.clock.advance(MINUTE)
        expired_at = at(server)
        assert coder.get("/api/tasks/in-flight").body["inFlight"] == []
        (one,) = coder.get("/api/tasks/in-flight?includeExpired=true").body["inFlight"]
        assert one["claim"] == {
            "sessionId": ME,
            "claimedAt": claimed_at,
            "expiresAt": expired_at,
            "agentType": "autonomous",
            "healthStatus": "expired",
        }
        refused(coder.get("/api/tasks/in-flight?includeExpired=perhaps"), "INVALID", 422)

    def test_the_latest_expired_claim_is_shown_also_after_it_was_swept(self, server: Served, coder: Caller) -> None:
        claim(coder, ttlMs=60000)
        server.clock.advance(MINUTE)
        seen = coder.get("/api/tasks/in-flight?includeExpired=true").body["inFlight"]
        assert coder.post("/api/tasks/claims/cleanup").body["expired"] == [TASK]
        swept = coder.get("/api/tasks/in-flight?includeExpired=true").body["inFlight"]
        assert [one["claim"]["healthStatus"] for one in swept] == ["expired"]
        assert swept == seen
        assert coder.get("/api/tasks/in-flight").body["inFlight"] == []
        # Whoever has it now is what is shown of it, and of two that expired the latest.
        claim(coder, ttlMs=60000)
        (held,) = coder.get("/api/tasks/in-flight?includeExpired=true").body["inFlight"]
        assert held["claim"]["healthStatus"] != "expired"
        server.clock.advance(MINUTE)
        latest = at(server)
        coder.post("/api/tasks/claims/cleanup")
        (again,) = coder.get("/api/tasks/in-flight?includeExpired=true").body["inFlight"]
        assert again["claim"]["expiresAt"] == latest

    def test_a_heartbeat_without_extend_ms_extends_by_what_the_claim_was_given_for(
        self, server: Served, coder: Caller
    ) -> None:
        claim(coder, ttlMs=90_000)
        server.clock.advance(MINUTE)
        assert heartbeat(coder).body["claim"]["expiresAt"] == at(server, 90)
        assert heartbeat(coder, extendMs=120_000).body["claim"]["expiresAt"] == at(server, 120)
        assert heartbeat(coder).body["claim"]["expiresAt"] == at(server, 120)

    def test_health_goes_by_the_thresholds_of_the_source(self, server: Served, coder: Caller) -> None:
        claim(coder, ttlMs=7_200_000)
        seen = []
        for minutes in (5, 1, 5, 104, 4):
            server.clock.advance(minutes * MINUTE)
            seen.append(coder.get("/api/tasks/in-flight").body["inFlight"][0]["claim"]["healthStatus"])
        assert seen == ["healthy", "stale", "orphaned", "warning", "expiring"]

    def test_a_session_on_several_tasks_shows_the_one_it_took_last(self, server: Served, coder: Caller) -> None:
        server.board.add("Another", id="another")
        assert coder.get(f"/api/sessions/{ME}/current-task").body == {"sessionId": ME, "currentTask": None}
        claim(coder, "another")
        server.clock.advance(1)
        claim(coder)
        assert coder.get(f"/api/sessions/{ME}/current-task").body["currentTask"]["taskId"] == TASK

    def test_a_session_whose_name_has_slashes(self, server: Served, coder: Caller) -> None:
        register(coder, "host/tty1")
        claim(coder, session="host/tty1")
        assert coder.get("/api/sessions/host/tty1/current-task").body["currentTask"]["taskId"] == TASK

    def test_the_summary_has_current_tasks_and_the_last_ten_claims(self, server: Served, coder: Caller) -> None:
        server.board.add("Long", id="long")
        claim(coder, "long")
        for number in range(12):
            server.board.add("Old", id=f"old-{number}")
            claim(coder, f"old-{number}")
            server.clock.advance(1)
            release(coder, f"old-{number}", reason="completed" if number % 2 else "tired")
        claim(coder)
        reply = coder.get("/api/sessions/summary")
        models.SessionsSummary.model_validate(reply.body)
        assert reply.body["summary"] == {"total": 2, "working": 1}
        sessions = {one["sessionId"]: one for one in reply.body["sessions"]}
        mine, other = sessions[ME], sessions[OTHER]
        assert (mine["currentTaskId"], mine["currentTaskClaimedAt"]) == (TASK, at(server))
        assert mine["currentTask"]["claim"]["remainingMs"] == HALF_AN_HOUR_MS
        assert [past["taskId"] for past in mine["claimHistory"]] == [f"old-{number}" for number in range(11, 1, -1)]
        assert [past["releaseReason"] for past in mine["claimHistory"][:2]] == ["completed", "tired"]
        assert (other["currentTaskId"], other["currentTask"], other["claimHistory"]) == (None, None, [])

    def test_cleaning_up_ends_what_has_lapsed(self, server: Served, coder: Caller) -> None:
        claim(coder, ttlMs=60000)
        server.clock.advance(MINUTE)
        reply = coder.post("/api/tasks/claims/cleanup")
        models.CleanedUp.model_validate(reply.body)
        assert reply.body == {"success": True, "cleaned": 1, "expired": [TASK], "orphaned": [], "more": False}
        assert coder.post("/api/tasks/claims/cleanup", {}).body["cleaned"] == 0
        assert server.board.get(TASK).item.status == "ready"

    def test_statistics(self, server: Served, coder: Caller) -> None:
        empty = coder.get("/api/tasks/claims/stats").body
        models.ClaimStatistics.model_validate(empty)
        assert (empty["stats"]["claimSuccessRate"], empty["stats"]["averageClaimMs"]) == (1.0, 0)
        claim(coder)
        refused(claim(coder, session=OTHER), "TASK_ALREADY_CLAIMED")
        server.clock.advance(90)
        release(coder, reason="manual")
        claim(coder)
        assert coder.get("/api/tasks/claims/stats").body["stats"] == {
            "activeClaims": 1,
            "totalClaims": 2,
            "conflictsAvoided": 1,
            "claimSuccessRate": 2 / 3,
            "averageClaimMs": 90000,
            "bySession": {ME: 1},
            "healthStatus": {"healthy": 1},
            "releaseReasons": {"released": 1},
        }


class TestEvents:
    """The source's four, in its words."""

    def of(self, server: Served, kind: str) -> dict[str, Any] | None:
        (event,) = [event for event in server.board.log(TASK) if event.kind == kind]
        return views.event(event)

    def test_claimed_and_released(self, server: Served, coder: Caller) -> None:
        claim(coder)
        release(coder, reason="completed")
        assert self.of(server, "claimed") == {"type": "task:claimed", "data": {"taskId": TASK, "sessionId": ME}}
        assert self.of(server, "done") == {"type": "task:released", "data": {"taskId": TASK, "reason": "completed"}}
        assert self.of(server, "added") is None

    def test_expired(self, server: Served, coder: Caller) -> None:
        claim(coder, ttlMs=60000)
        server.clock.advance(MINUTE)
        coder.post("/api/tasks/claims/cleanup")
        assert self.of(server, "expired") == {"type": "task:claim-expired", "data": {"taskId": TASK, "sessionId": ME}}

    def test_orphaned(self, server: Served, coder: Caller) -> None:
        gone = Owner(boot_id="of another day", pid_namespace=1, pid=1, start_time=1)
        server.board.start_session("coder", id="owned", owner=gone)
        server.board.claim(TASK, session="owned")
        with found_dead(("owned", gone)):
            server.board.sweep()
        assert self.of(server, "owner_died") == {
            "type": "task:claim-orphaned",
            "data": {"taskId": TASK, "reason": "session_dead"},
        }

    @pytest.mark.parametrize(
        ("verb", "asked", "kind", "reason"),
        [
            ("release", {"session": ME, "reason": "needs a designer"}, "released", "needs a designer"),
            ("release", {"session": ME}, "released", "released"),
            ("fail", {"session": ME, "reason": "error"}, "failed", "error"),
            ("fail", {"session": ME}, "failed", "failed"),
            ("done", {"session": ME, "note": "it was the cookie"}, "done", "completed"),
            ("submit", {"session": ME, "draft": "Dear customer"}, "submitted", "submitted"),
            ("reject", {"session": ME, "reason": "never"}, "rejected", "rejected"),
            ("force_release", {"reason": "its machine is gone"}, "force_released", "force_released"),
            ("cancel", {"reason": "a duplicate"}, "cancelled", "cancelled"),
        ],
    )
    def test_every_other_end_is_a_release_for_a_reason(
        self, server: Served, coder: Caller, verb: str, asked: dict[str, Any], kind: str, reason: str
    ) -> None:
        claim(coder)
        getattr(server.board, verb)(TASK, **asked)
        assert self.of(server, kind) == {"type": "task:released", "data": {"taskId": TASK, "reason": reason}}

    def test_what_the_session_forgot_or_leaves_behind_is_released(self, server: Served, coder: Caller) -> None:
        claim(coder)
        server.board.heartbeat(session=ME, holding={})
        assert self.of(server, "forgotten") == {
            "type": "task:released",
            "data": {"taskId": TASK, "reason": "forgotten"},
        }
        claim(coder)
        server.board.end_session(ME)
        assert self.of(server, "released") == {
            "type": "task:released",
            "data": {"taskId": TASK, "reason": "session ended"},
        }

    def test_what_nobody_held_is_not_released(self, server: Served, coder: Caller) -> None:
        server.board.cancel(TASK)
        assert self.of(server, "cancelled") is None

    def test_a_board_that_was_restored_released_what_was_held(self) -> None:
        event = Event(item=TASK, number=9, kind="restored", at=0, status="ready", token=9, actor="you", session=ME)
        assert views.event(event) == {"type": "task:released", "data": {"taskId": TASK, "reason": "restored"}}


class TestDescription:
    def test_every_route_is_in_the_document_with_its_refusals_and_examples(self, server: Served) -> None:
        document = server.admin.get("/openapi.json").body
        paths = {
            path: verbs
            for path, verbs in document["paths"].items()
            if path.startswith("/api/") and "events" not in path
        }
        assert set(paths) == {
            "/api/sessions",
            "/api/sessions/summary",
            "/api/sessions/{sessionId}/current-task",
            "/api/tasks/{taskId}/claim",
            "/api/tasks/{taskId}/release",
            "/api/tasks/{taskId}/claim/heartbeat",
            "/api/tasks/in-flight",
            "/api/tasks/claims/cleanup",
            "/api/tasks/claims/stats",
        }
        for verbs in paths.values():
            (described,) = verbs.values()
            answers = described["responses"]
            assert {str(status) for status in STATUSES.values()} | {"200", "401", "422", "429", "503"} <= set(answers)
            assert "TaskRefusal" in str(answers["404"]["content"]["application/json"])
        known = document["components"]["schemas"]
        for name in (
            "ClaimTask",
            "Claimed",
            "ReleaseTask",
            "Released",
            "ExtendClaim",
            "Extended",
            "InFlight",
            "Current",
        ):
            (example,) = known[name]["examples"]
            getattr(models, name).model_validate(example)
        for example in known["TaskRefusal"]["examples"]:
            models.TaskRefusal.model_validate(example)

    def test_the_codes_are_the_boards_own(self) -> None:
        known = {kind.code: kind.http_status for kind in DibsError.__subclasses__()}
        assert STATUSES.items() <= known.items()
        assert ItemAlreadyClaimed.http_status == STATUSES["TASK_ALREADY_CLAIMED"]
