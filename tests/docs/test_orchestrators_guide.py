"""docs/guides/orchestrators.md: its scripts run as they stand, and of all that start for one issue one goes on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.markdown import blocks, read
from tests.docs.shop import Shop

GUIDE = read("docs/guides/orchestrators.md")
ISSUE = "https://example.org/acme/shop/issues/12"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A board, and the scripts of the guide under the names that their first comments have."""
    shop = Shop(tmp_path)
    scripts = shop.folder / "bin"
    scripts.mkdir()
    for block in blocks(GUIDE, "sh"):
        name = re.search(r"^# ([\w-]+)", block, re.MULTILINE)
        assert name, block
        (scripts / name[1]).write_text(block)
        (scripts / name[1]).chmod(0o755)
    assert {path.name for path in scripts.iterdir()} == {"item-of", "before_run", "after_run", "claimed", "sling"}
    typed(shop, "dibs init")
    return shop


def typed(shop: Shop, line: str, code: int = 0) -> str:
    done = shop.type(f'export PATH="$PWD/bin:$PATH"; {line}')
    assert done.returncode == code, done.stdout
    return done.stdout


def test_of_three_hooks_for_one_issue_one_lets_its_agent_start(shop: Shop) -> None:
    """Three orchestrators, each with a folder of its own for the issue."""
    (front_matter,) = blocks(GUIDE, "yaml")
    before, after = re.findall(r"\|\n +(.*)", front_matter)
    folders = "for n in 1 2 3; do mkdir -p $n/SHOP-12; cd $n/SHOP-12"
    typed(shop, f"{folders}; ({before} >../../out.$n 2>&1; echo $? >../../code.$n) & cd ../..; done; wait")
    codes = {n: (shop.folder / f"code.{n}").read_text().strip() for n in "123"}
    assert sorted(codes.values()) == ["0", "4", "4"], [(shop.folder / f"out.{n}").read_text() for n in "123"]
    (item,) = shop.answer("dibs list --all")["items"]
    assert (item["subject"], item["title"], item["assignee"]) == ("linear:SHOP-12", "SHOP-12", "coder")
    (winner,) = [n for n, code in codes.items() if code == "0"]
    assert (shop.folder / f"out.{winner}").read_text().endswith(f"{item['id']}\n")
    typed(shop, f"cd {winner}/SHOP-12; {after}")
    assert shop.answer(f"dibs show {item['id']}")["item"]["status"] == "ready"
    typed(shop, f"before_run again linear:SHOP-12 x && dibs done {item['id']} --session again")
    assert "already done" in typed(shop, "before_run late linear:SHOP-12 x", 4)


def test_a_wrapped_program_runs_while_its_item_is_held_and_its_exit_ends_the_item(shop: Shop) -> None:
    inner = f"claimed {ISSUE} true; echo inner $?; dibs progress $DIBS_ITEM half"
    told = typed(shop, f"claimed {ISSUE} sh -c '{inner}'")
    assert "inner 4" in told, "the second wrapper was let through"
    (item,) = shop.answer("dibs list --all")["items"]
    assert item["status"] == "done"
    typed(shop, "claimed branch:main sh -c 'exit 7'", 7)
    (run,) = shop.answer("dibs runs --item $(bin/item-of branch:main)")["runs"]
    assert (run["outcome"], run["reason"]) == ("failed", "exit code 7")
    assert shop.answer("dibs sessions")["sessions"] == [], "a wrapper left its session behind"


@pytest.mark.soak
def test_a_wrapper_that_is_killed_leaves_the_item_free(shop: Shop) -> None:
    typed(shop, f"claimed {ISSUE} sh -c 'kill -9 $PPID'", 137)
    typed(shop, f"claimed {ISSUE} true")
    outcomes = [run["outcome"] for run in shop.answer("dibs runs")["runs"]]
    assert outcomes == ["done", "owner_died"]


def test_a_dispatcher_hands_over_what_it_claimed(shop: Shop) -> None:
    mayor = "export DIBS_SESSION=$(dibs session start --agent mayor --id mayor-1)"
    item = typed(shop, f"{mayor}; sling {ISSUE} 'Fix login' w-1").splitlines()[-1]
    grant = shop.answer(f"dibs claim {item} --session w-1")
    assert (grant["renewed"], grant["claim"]["token"], grant["claim"]["agent"]) == (True, 2, "worker")
    assert grant["previous"]["run"]["reason"] == "slung by mayor-1"
    assert "handed" in typed(shop, f"{mayor}; dibs done {item}", 4)
    typed(shop, f"{mayor}; sling {ISSUE} 'Fix login' w-2", 4)
    typed(shop, "dibs agent set worker --max-claims 1")
    typed(shop, f"{mayor}; sling {ISSUE}3 Another w-1", 75)
    assert shop.answer(f"dibs list --subject {ISSUE}3")["items"][0]["status"] == "ready"
    typed(shop, f"dibs done {item} --session w-1")
