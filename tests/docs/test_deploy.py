"""The files in `deploy/` name commands, options, routes and metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from dibs.cli.commands import COMMANDS
from dibs.cli.parser import build
from dibs.config import ServerSettings
from dibs.errors import Invalid
from dibs.server.ops import address
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


def image_command() -> list[str]:
    (command,) = re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    arguments: list[str] = json.loads(command)
    return arguments


def check_listens(words: list[str]) -> list[str]:
    """A server can listen with these arguments, here on a free port. The answer is the host names that it accepts."""
    args = parsed(words)
    settings = ServerSettings(host=args.host, port=0, names=tuple(args.name), insecure=args.insecure)
    address.listen(settings).close()
    return address.hosts_and_origins(settings, ServerSettings().port)[0]


def test_the_linter_finds_nothing() -> None:
    settings = YamlLintConfig((DEPLOY / ".yamllint").read_text(encoding="utf-8"))
    for path in sorted(DEPLOY.glob("*.yaml")):
        assert [str(problem) for problem in linter.run(path.read_text(encoding="utf-8"), settings)] == [], path


def test_the_image_starts_a_server() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert {"127.0.0.1:8377", "localhost:8377"} <= set(check_listens(image_command()))
    with pytest.raises(Invalid, match="not a host name"):
        check_listens([word for word in image_command() if word not in ("--name", "localhost")])
    assert re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE) == ['["dibs"]']
    assert "\nUSER 10001\n" in text


def test_compose_makes_the_board_before_it_serves_it() -> None:
    (compose,) = documents("compose.yaml")
    services = compose["services"]
    parsed(services["schema"]["command"])
    assert services["server"]["depends_on"] == {"schema": {"condition": "service_completed_successfully"}}
    assert services["server"]["ports"] == ["127.0.0.1:8377:8377"]
    assert "127.0.0.1:8377" in check_listens(services["server"].get("command", image_command()))


def test_kubernetes_starts_what_there_is() -> None:
    (deployment,) = [one for one in documents("kubernetes.yaml") if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (schema,), (server,) = pod["initContainers"], pod["containers"]
    parsed(schema["args"])
    assert "board.example.org" in check_listens(server["args"])
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
            assert any(command == known.partition(" ")[0] for known in COMMANDS), rule["alert"]
