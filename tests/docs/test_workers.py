"""docs/guides/workers.md: what is written there works as it is written."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

from dibs.board import connect, make
from dibs.sdk.claim_handle import ClaimHandle
from dibs.worker.worker import Worker
from tests.docs.markdown import blocks, code, read, section
from tests.docs.shop import Shop

GUIDE = read("docs/guides/workers.md")


def test_the_first_program_works(tmp_path: Path, monkeypatch: Any) -> None:
    make(str(tmp_path / ".dibs" / "board.db"), folder=str(tmp_path))
    monkeypatch.chdir(tmp_path)
    program = blocks(GUIDE, "python")[0]
    assert program.endswith("worker.run()\n")

    async def answer(body: str) -> str:
        await asyncio.sleep(0)
        return f"About {body}: yes."

    with connect() as board:
        board.add("Review it", id="pr", type="pr_review", payload={"pr": 7})
        board.add("Answer it", id="mail", type="reply", body="prices")
        names = {"read_the_diff_of": lambda pr: pr, "write_an_answer_to": answer}
        exec(program.replace("worker.run()", "worker.run(once=True)"), names)  # noqa: S102 - that is what is shown
        assert board.get("pr").runs[0].reason == "7 remarks"
        assert (board.get("mail").runs[0].draft, board.get("mail").item.status) == (
            "About prices: yes.",
            "pending_approval",
        )
    names["board"].close()  # type: ignore[attr-defined]


def test_the_pair_is_made_as_it_is_typed(tmp_path: Path) -> None:
    pair, decisions = blocks(section(GUIDE, "## Drafts and approvals"), "sh")
    shop = Shop(tmp_path)
    assert shop.type(f"dibs init && {pair}").returncode == 0
    shown, approve, send_back, reject = decisions.splitlines()
    draft = "dibs session start --agent cloud --id c && dibs next --session c && "
    draft += "dibs submit sorry --session c --draft Hello"
    for decide, status in ((send_back, "ready"), (approve, "ready")):
        assert shop.type(draft).returncode == 0
        revision = shop.answer("dibs show sorry")["item"]["revision"]
        assert f"--revision {revision}" in shop.type(shown).stdout
        decide = decide.replace("--revision 4", f"--revision {revision}")
        assert shop.type(decide).returncode == 0, decide
        assert shop.answer("dibs show sorry")["item"]["status"] == status
    shop.type("dibs edit sorry --body otherwise")
    assert shop.type(reject).returncode == 0
    assert shop.answer("dibs show sorry")["item"]["status"] == "rejected"


def test_what_it_names_is_there() -> None:
    names = {word for word in code(GUIDE) if word.startswith(("claim.", "worker."))}
    assert names
    for name in names:
        owner, _, attribute = name.partition(".")
        attribute = attribute.partition("(")[0].partition(".")[0]
        known = Worker if owner == "worker" else ClaimHandle
        assert hasattr(known, attribute) or f"self.{attribute}" in inspect.getsource(known), name
    asked = {*inspect.signature(Worker.run).parameters, *inspect.signature(Worker.handles).parameters}
    for word in ("once", "interval_seconds", "timeout_seconds", "max_claims"):
        assert word in asked
    assert "drain_seconds` (30)" in GUIDE
    assert inspect.signature(Worker).parameters["drain_seconds"].default == 30
