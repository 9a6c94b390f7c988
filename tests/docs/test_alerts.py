"""The alert rules in `deploy/`, tried by promtool on two boards: what is wrong with one raises one alert, with its
name, and an ordinary night raises none."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.docs.markdown import ROOT

RULES = ROOT / "deploy" / "alert-rules.yaml"
SHOP, SITE = "dibs-shop", "dibs-site"
#: What a board at rest tells for a day, by series: values in the notation of promtool, a minute apart.
WELL = {
    "up": "1x1440",
    "dibs_store_up": "1x1440",
    "dibs_store_writable": "1x1440",
    "dibs_active_claims": "1x1440",
    "dibs_heartbeat_lag_seconds": "30x1440",
    'dibs_sessions{health="healthy"}': "1x1440",
    "dibs_waiting_for_person_seconds": "0x1440",
    "dibs_webhooks_disabled": "0x1440",
    "dibs_last_backup_timestamp_seconds": "0x1440",
    "dibs_certificate_expires_timestamp_seconds": "7776000x1440",
    'dibs_key_expires_timestamp_seconds{key="3f9a",name="ci"}': "7776000x1440",
    'dibs_request_seconds_count{route="/v1/next",status="200"}': "0+60x1440",
    'dibs_runs_ended_total{outcome="done"}': "0+1x1440",
}
REFUSED = 'dibs_request_seconds_count{route="/v1/next",status="503"}'
NOT_READY = 'dibs_request_seconds_count{route="/readyz",status="503"}'
CLAIM = 'dibs_request_seconds_bucket{route="/v1/items/{item}/claim",le="%s"}'
NOTHING: dict[str, dict[str, str]] = {}


class Case(NamedTuple):
    """What one board tells instead, looks at it after so long, and the alerts that there are then, with their labels.
    `silent`: nothing but `up` is scraped."""

    told: dict[str, str]
    at: str
    expected: dict[str, dict[str, str]]
    silent: bool = False
    instance: str = "a"


CASES = {
    "no server answers": Case({"up": "1x30 0x60"}, "40m", {"DibsServerDown": {}}, silent=True),
    "the store is gone": Case(
        {"dibs_store_up": "1x30 0x60", "dibs_store_writable": "1x30 0x60", REFUSED: "0x30 0+60x60"},
        "50m",
        {"DibsStoreDown": {}},
    ),
    "the store was gone for five minutes": Case(
        {"dibs_store_up": "1x30 0x5 1x60", "dibs_store_writable": "1x30 0x5 1x60", REFUSED: "0x30 0+60x5 300x60"},
        "42m",
        NOTHING,
    ),
    "one of two servers does not reach the store": Case(
        {"up": "1x60", "dibs_store_up": "0x60", "dibs_store_writable": "0x60"}, "50m", NOTHING, instance="b"
    ),
    "the disk is full": Case(
        {"dibs_store_writable": "1x30 0x60", REFUSED: "0x30 0+60x60"}, "50m", {"DibsStoreNotWritable": {}}
    ),
    "requests are refused": Case({REFUSED: "0+10x60"}, "50m", {"DibsRefuses": {}}),
    "a probe finds a server that is not ready": Case({NOT_READY: "0+60x60"}, "50m", NOTHING),
    "the certificate is near its end": Case(
        {"dibs_certificate_expires_timestamp_seconds": "600000x60"}, "50m", {"DibsCertificateEnds": {}}
    ),
    "a key is near its end": Case(
        {'dibs_key_expires_timestamp_seconds{key="77aa",name="night"}': "600000x60"},
        "50m",
        {"DibsKeyEnds": {"key": "77aa", "name": "night"}},
    ),
    "the backup is too old": Case({"dibs_last_backup_timestamp_seconds": "-180000x60"}, "50m", {"DibsBackupOld": {}}),
    "a webhook was disabled": Case({"dibs_webhooks_disabled": "0x10 1x60"}, "50m", {"DibsWebhookDisabled": {}}),
    "an item waits for a person": Case(
        {"dibs_waiting_for_person_seconds": "85000+60x60"}, "50m", {"DibsPersonAwaited": {}}
    ),
    "a holder is silent": Case({"dibs_heartbeat_lag_seconds": "30x10 600+60x60"}, "50m", {"DibsHolderSilent": {}}),
    "runs fail": Case(
        {'dibs_runs_ended_total{outcome="failed"}': "0+1x60", 'dibs_runs_ended_total{outcome="done"}': "9x60"},
        "50m",
        {"DibsRunsFail": {}},
    ),
    "runs are lost": Case({'dibs_runs_ended_total{outcome="expired"}': "0x30 1+1x30"}, "50m", {"DibsAgentsDying": {}}),
    "nobody works": Case(
        {"dibs_active_claims": "0x90", 'dibs_ready_items{type="task",priority="5"}': "101x90"},
        "80m",
        {"DibsQueueGrows": {}},
    ),
    "claims are slow": Case(
        {CLAIM % "0.5": "0+1x60", CLAIM % "1": "0+10x60", CLAIM % "+Inf": "0+10x60"}, "50m", {"DibsSlow": {}}
    ),
}
#: One failed run, a person who holds an item, a draft that was submitted in the evening, a backlog, no session.
NIGHT = {
    "dibs_active_claims": "1x1440",
    "dibs_heartbeat_lag_seconds": "0x1440",
    'dibs_sessions{health="healthy"}': "1x600 0x840",
    'dibs_ready_items{type="task",priority="5"}': "500x1440",
    'dibs_runs_ended_total{outcome="failed"}': "0x200 1x1240",
    'dibs_runs_ended_total{outcome="done"}': "40x1440",
    "dibs_waiting_for_person_seconds": "0+60x900",
}
NIGHT_LOOKS = ("30m", "201m", "205m", "215m", "230m", "8h", "11h", "14h")
CASES["a quiet night"] = Case(NIGHT, " ".join(NIGHT_LOOKS), NOTHING)
CASES["a backlog at night"] = Case(
    NIGHT | {"dibs_active_claims": "0x1440", 'dibs_sessions{health="healthy"}': "0x1440"}, "2h", NOTHING
)
NIGHT_RUN = "one failed run at night"
CASES[NIGHT_RUN] = Case(
    {
        'dibs_runs_ended_total{outcome="failed"}': "0x100 1x100",
        'dibs_runs_ended_total{outcome="done"}': "40x300",
    },
    "113m",
    NOTHING,
)


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]
    return found


def named(series: str, job: str, instance: str = "a") -> str:
    """The series of a board, as a scrape of this server finds it."""
    name, _, labels = series.partition("{")
    own = f'job="{job}",instance="{instance}"'
    return f"{name}{{{own},{labels}" if labels else f"{name}{{{own}}}"


def series_of(case: Case) -> list[dict[str, str]]:
    told = {named(series, SITE): values for series, values in WELL.items()}
    if not case.silent:
        told |= {named(series, SHOP): values for series, values in WELL.items()}
    told |= {named(series, SHOP, case.instance): values for series, values in case.told.items()}
    return [{"series": series, "values": values} for series, values in told.items()]


def filled(text: str, labels: dict[str, str]) -> str:
    for label, value in labels.items():
        text = text.replace(f"{{{{ $labels.{label} }}}}", value)
    return text


def expectation(rule: dict[str, Any], case: Case, at: str) -> dict[str, Any]:
    """Of an alert: that it is there once, with the name of the board, or not at all."""
    expected = {"eval_time": at, "alertname": rule["alert"], "exp_alerts": []}
    if rule["alert"] in case.expected:
        labels = {"job": SHOP, **rule["labels"], **case.expected[rule["alert"]]}
        annotations = {name: filled(text, labels) for name, text in rule["annotations"].items()}
        expected["exp_alerts"] = [{"exp_labels": labels, "exp_annotations": annotations}]
    return expected


def said_by_promtool(folder: Path, rules_file: Path, cases: dict[str, Case]) -> subprocess.CompletedProcess[str]:
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool on this machine (Debian: prometheus)")
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": series_of(case),
            "alert_rule_test": [expectation(rule, case, at) for at in case.at.split() for rule in rules()],
        }
        for name, case in cases.items()
    ]
    asked = {"rule_files": [str(rules_file)], "evaluation_interval": "1m", "tests": tests}
    path = folder / "rules.test.yaml"
    path.write_text(json.dumps(asked), encoding="utf-8")
    command = ["promtool", "test", "rules", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_what_is_wrong_with_a_board_raises_one_alert_with_its_name(tmp_path: Path) -> None:
    told = said_by_promtool(tmp_path, RULES, CASES)
    assert told.returncode == 0, told.stdout + told.stderr


def test_every_rule_has_a_case_in_which_it_fires() -> None:
    fired = {alert for case in CASES.values() for alert in case.expected}
    assert fired == {rule["alert"] for rule in rules()}


@pytest.mark.parametrize(
    ("written", "instead", "case"),
    [
        ("max by (job) (dibs_store_up) == 0", "max(dibs_store_up) == 0", "the store is gone"),
        (
            " and on (job) sum by (job) (max by (job, outcome) (increase(dibs_runs_ended_total[30m]))) > 5",
            "",
            NIGHT_RUN,
        ),
        (" and on (job) sum by (job) (max by (job, health) (dibs_sessions)) > 0", "", "a backlog at night"),
        (" and on (job) max by (job) (dibs_store_writable) == 1", "", "the disk is full"),
    ],
)
def test_promtool_finds_a_rule_that_is_silent_or_fires_without_cause(
    tmp_path: Path, written: str, instead: str, case: str
) -> None:
    changed = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    count = 0
    for rule in changed["groups"][0]["rules"]:
        expression = " ".join(rule["expr"].split())
        count += written in expression
        rule["expr"] = expression.replace(written, instead)
    assert count == 1
    path = tmp_path / "rules.yaml"
    path.write_text(json.dumps(changed), encoding="utf-8")
    assert said_by_promtool(tmp_path, path, {case: CASES[case]}).returncode != 0
