"""The table `[github]`: each mistake is refused with its line, and with what may have been meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from dibs.errors import Invalid
from dibs.github import intake, payload, policy_file
from dibs.github.policy import DEFAULT_RULES, Policy
from dibs.location import Place
from tests.github.payloads import issue, pull, run

WHOLE = """
[board]
ttl_seconds = 600

[github]
outsiders = "ignore"
approve_label = "dibs"
secrets_file = "secrets"   # beside this file

[github.projects]
"Acme/*" = "acme"
"*" = "rest"

[github.priorities]
P1 = "critical"
Bug = 7

[[github.rules]]
event = ["issues", "pull_request"]
repository = "acme/shop"
labels = ["wontfix", "dup*"]
do = "ignore"

[[github.rules]]
event = "workflow_run"
workflow = "nightly.yml"
branch = ["main", "release/*"]
association = ["OWNER", "COLLABORATOR"]
action = "failed"
do = "make"
type = "nightly"
priority = "p0"
project = "ops"
add_labels = ["nightly"]
"""


def place(folder: Path) -> Place:
    return Place(str(folder / ".dibs" / "board.db"), str(folder))


def read(folder: Path, text: str) -> Policy:
    (folder / "dibs.toml").write_text(text)
    return policy_file.load(place(folder))


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert policy_file.load(place(tmp_path)) == Policy()
    assert read(tmp_path, "[board]\n") == Policy()


def test_a_whole_table_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    assert (found.outsiders, found.approve_label) == ("ignore", "dibs")
    assert found.secrets_file == str(tmp_path / "secrets")
    assert found.rules[2:] == DEFAULT_RULES
    assert [rule.line for rule in found.rules[:2]] == [18, 24]
    nightly = payload.from_webhook("workflow_run", run(1, "failure", path=".github/workflows/nightly.yml"))
    assert nightly is not None
    rule = found.rule(nightly)
    assert rule == found.rules[1]
    assert rule is not None
    assert (found.priority(nightly, rule)[0], found.project(nightly, rule)) == (10, "ops")
    other = nightly.replace(branch="feature/x")
    assert found.rule(other) == DEFAULT_RULES[4]
    duplicate = payload.from_webhook("issues", issue(labels=["Duplicate"]))
    assert duplicate is not None
    assert found.rule(duplicate) == found.rules[0]
    urgent = payload.from_webhook("pull_request", pull(labels=["p1", "bug"]))
    assert urgent is not None
    assert found.priority(urgent, DEFAULT_RULES[2]) == (10, "p1")
    assert found.project(urgent, DEFAULT_RULES[2]) == "acme"


def test_what_may_be_written_is_read_and_is_nothing_without_a_table(tmp_path: Path) -> None:
    assert not Policy().out.is_about("acme/shop")
    assert not read(tmp_path, '[github.out]\nrepositories = ["acme/*"]\n').out.is_about("acme/shop")
    text = '[github.out]\nstatus = true\nrepositories = "Acme/*"\n[github.out.assign]\n"coder-*" = "Octocat"\n'
    found = read(tmp_path, text).out
    assert (found.is_about("acme/shop"), found.is_about("other/shop")) == (True, False)
    assert (found.login("coder-7"), found.login("reviewer")) == ("Octocat", None)


def test_the_defaults_can_be_switched_off(tmp_path: Path) -> None:
    assert read(tmp_path, "[github]\ndefaults = false\n").rules == ()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[github]\noutsider = 1\n", 2, "no setting 'outsider'; choose outsiders"),
        ('[github]\n\noutsiders = "aproval"\n', 3, "choose approval"),
        ("github = 5\n", 1, "must be a table"),
        ("[github]\nwebhook_bytes_max = 5\n", 2, "between 1000 and"),
        ("[github]\napprove_label = 5\n", 2, "must be a text"),
        ('[github.projects]\n"a/b" = "ok"\n"c/d" = "not a name"\n', 3, "must consist of"),
        ('[github.priorities]\nbug = "hihg"\n', 2, "neither a number"),
        ('[[github.rules]]\ndo = "ignore"\n\n[[github.rules]]\ndo = "cancle"\n', 5, "choose cancel"),
        ('[[github.rules]]\ndo = "ignore"\nlabel = "x"\n', 3, "no setting 'label'; choose labels"),
        ('[[github.rules]]\nevent = "issues"\n', 1, "needs do"),
        ('[[github.rules]]\ndo = "make"\n', 1, "needs the type"),
        ('[[github.rules]]\ndo = "reprioritise"\n', 1, "needs a priority"),
        ('[[github.rules]]\ndo = "make"\ntype = "x"\naction = "merged"\n', 1, "open or failed"),
        ('[[github.rules]]\ndo = "ignore"\naction = ["opened", "label"]\n', 3, "choose labeled"),
        ('[[github.rules]]\ndo = "ignore"\nassociation = "member"\n', 3, "choose one of OWNER"),
        ('[[github.rules]]\ndo = "ignore"\ndraft = "no"\n', 3, "true or false"),
        ('[[github.rules]]\ndo = "ignore"\nbranch = 5\n', 3, "must be a text"),
        ('[[github.rules]]\ndo = "ignore"\nlabels = []\n', 3, "leave it out to match anything"),
        ('[[github.rules]]\nevent = "issues"\naction = "failed"\ndo = "ignore"\n', 3, "issues are never failed"),
        ('[[github.rules]]\ndo = "cancel"\npriority = 3\n', 3, "'cancel' does not obey it"),
        ('[[github.rules]]\ndo = "ignore"\nrepository = "acme"\n', 3, "OWNER/NAME"),
        ('[github.projects]\n"acme" = "x"\n', 2, "OWNER/NAME"),
        ("[github.priorities]\nbug = 8\nBug = 1\n", 1, "differ only in case"),
        ('x = 1\ngithub.rules = [{do = "ignore"},\n{do = "x"}]\n', 2, "choose one of make"),
        ('["github"]\nrules = [{do = "ignore"}, {do = "x"}]\n', 2, "choose one of make"),
        ('[["github".rules]]\ndo = "x"\n', 2, "choose one of make"),
        ('[[github.rules]]\ndo = "make"\ntype = "x"\npriority = 10000000000\n', 4, "between"),
        ('[github]\ncomplete = "merge"\n', 2, "choose merged"),
        ("[github]\nchecks = 5\n", 2, "must be a text"),
        ('[[github.rules]]\ndo = "ignore"\ncomplete = "merged"\n', 3, "'ignore' does not obey it"),
        ('[[github.rules]]\ndo = "make"\ntype = "x"\ncomplete = "green"\n', 4, "'green' is not known"),
        ('[[github.rules]]\ndo = "ignore"\nlinked = 1\n', 3, "true or false"),
        ("[github]\nrules = 5\n", 2, "must be tables"),
        ("[github.out]\ncomments = true\n", 2, "no setting 'comments'; choose comment"),
        ('[github.out]\nlabel = "x"\ncomment = "yes"\n', 3, "true or false"),
        ('[github.out]\nlabel = ""\n', 2, "the name of a label"),
        ('[github.out]\nassign = {coder = "not a login"}\n', 2, "coder needs a login"),
        ('[github.out]\nassign = "octocat"\n', 2, "a table of agents and logins"),
        ("[github]\nout = true\n", 2, "must be a table"),
        ("[github]\nrules = [5]\n", 2, "must be tables"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_may_be_meant(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        read(tmp_path, text)
    assert f"dibs.toml, line {line}: " in refusal.value.message
    assert words in refusal.value.message
    assert refusal.value.facts["line"] == line


def test_secrets_come_from_the_environment_and_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "secrets"
    kept.write_text("a-secret-of-the-file-1\na-secret-of-the-file-2\n")
    kept.chmod(0o600)
    found = read(tmp_path, '[github]\nsecrets_file = "secrets"\n')
    monkeypatch.setenv("DIBS_GITHUB_SECRET", "a-secret-of-the-environment another-of-the-environment")
    assert len(intake.secrets(found)) == 4
    assert len(intake.secrets(Policy())) == 2
    kept.chmod(0o644)
    with pytest.raises(Invalid, match="can be read by others"):
        intake.secrets(found)
    kept.chmod(0o600)
    for content, words in (
        (b" \n", "has no secret"),
        (b"\xff" * 20, "ASCII"),
        (b"a-secret-of-many\n" * 9, "11 secrets"),
    ):
        kept.write_bytes(content)
        with pytest.raises(Invalid, match=words):
            intake.secrets(found)
    kept.unlink()
    with pytest.raises(Invalid, match="cannot read secrets_file"):
        intake.secrets(found)
    monkeypatch.setenv("DIBS_GITHUB_SECRET", "short")
    with pytest.raises(Invalid, match="16 characters") as refusal:
        intake.secrets(Policy())
    assert "short" not in refusal.value.message
