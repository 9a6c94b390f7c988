"""The files in `deploy/` name commands, options, routes and metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from dibs.cli.commands import COMMANDS
from dibs.cli.parser import build
from tests.docs.markdown import ROOT, code, read, table

DEPLOY = ROOT / "deploy"
METRICS = read("docs/operations/metrics.md")
#: What Prometheus adds to the name of a histogram.
SUFFIXES = re.compile(r"_(bucket|count|sum)$")


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def parsed(words: list[str]) -> Any:
    """The arguments of a command, which has to exist with these options."""
    return build(words[0], COMMANDS[words[0]])[0].parse(words[1:])


def test_the_linter_finds_nothing() -> None:
    settings = YamlLintConfig((DEPLOY / ".yamllint").read_text(encoding="utf-8"))
    for path in sorted(DEPLOY.glob("*.yaml")):
        assert [str(problem) for problem in linter.run(path.read_text(encoding="utf-8"), settings)] == [], path


def test_the_image_starts_a_server() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    assert parsed(json.loads(command)).insecure is True
    assert re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE) == ['["dibs"]']
    assert "\nUSER 10001\n" in text


def test_compose_makes_the_board_before_it_serves_it() -> None:
    (compose,) = documents("compose.yaml")
    services = compose["services"]
    parsed(services["schema"]["command"])
    assert services["server"]["depends_on"] == {"schema": {"condition": "service_completed_successfully"}}
    assert all(port.startswith("127.0.0.1:") for port in services["server"]["ports"])


def test_kubernetes_starts_what_there_is() -> None:
    (deployment,) = [one for one in documents("kubernetes.yaml") if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (schema,), (server,) = pod["initContainers"], pod["containers"]
    parsed(schema["args"])
    assert parsed(server["args"]).name == ["https://board.example.org"]
    for probe in (server["readinessProbe"], server["livenessProbe"]):
        assert probe["httpGet"]["path"] in METRICS


def test_every_metric_that_is_asked_for_exists() -> None:
    known = {code(row[0])[0] for row in table(METRICS, "metric", "kind")}
    rules = [rule for group in documents("alert-rules.yaml")[0]["groups"] for rule in group["rules"]]
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    asked = [rule["expr"] for rule in rules]
    asked += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = {SUFFIXES.sub("", name) for expression in asked for name in re.findall(r"\bdibs_\w+", expression)}
    assert names <= known
    assert names >= known - {"dibs_conflicts_avoided_total"}, "each has a place on the dashboard"
    assert {rule["alert"] for rule in rules} == {code(row[0])[0] for row in table(METRICS, "alert", "fires when")}


def test_an_alert_says_what_to_do(tmp_path: Path) -> None:
    for rule in documents("alert-rules.yaml")[0]["groups"][0]["rules"]:
        assert set(rule["annotations"]) == {"summary", "description"}
        for command in re.findall(r"\bdibs ([a-z-]+)", rule["annotations"]["description"]):
            assert command in COMMANDS, rule["alert"]
