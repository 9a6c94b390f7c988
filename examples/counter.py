"""A function as a worker: it is called for each item of its type, and its return value ends the run.

dibs init
dibs add "How long is the readme?" --type count --payload '{"file": "README.md"}'
python examples/counter.py --once
dibs runs
"""

from __future__ import annotations

import sys

import dibs
from dibs.sdk.claim_handle import ClaimHandle
from dibs.worker import Worker


def main() -> None:
    with dibs.connect() as board:
        worker = Worker(board, "counter", log="agent-counter.log")

        @worker.handles("count", max_claims=4, timeout_seconds=60)
        def count(claim: ClaimHandle) -> str:
            # An exception, such as that of a missing file, fails this run, and the worker takes the next item.
            with open(claim.item.payload["file"], encoding="utf-8") as file:
                return f"{sum(1 for _ in file)} lines"

        @worker.handles("spell")
        def spell(claim: ClaimHandle) -> dict[str, object]:
            words = claim.item.body.split()
            claim.progress(f"{len(words)} words to look at")
            odd = [word for word in words if not word.isascii()]
            return {"note": f"{len(odd)} odd words", "links": {"words": odd}}

        print(dict(worker.run(once="--once" in sys.argv)))


if __name__ == "__main__":
    main()
