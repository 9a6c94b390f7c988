"""The other half of the pair: the agent that does what was approved, word for word, and nothing else. See cloud.py."""

from __future__ import annotations

import sys

import dibs
from dibs.handle import ClaimHandle
from dibs.worker import Worker

OUTBOX = "outbox.txt"


def main() -> None:
    with dibs.connect() as board:
        worker = Worker(board, "local", log="agent-local.log")

        @worker.handles()
        def send(claim: ClaimHandle) -> str:
            letter = claim.approved_draft
            if letter is None or claim.approval is None:
                # Nobody has approved anything here: it is for whoever drafts.
                claim.release("there is no approved draft", park=True)
                return ""
            # The last look before what cannot be taken back.
            claim.verify()
            with open(OUTBOX, "a", encoding="utf-8") as outbox:
                outbox.write(letter)
            return f"sent, as {claim.approval.actor} approved it"

        print(dict(worker.run(once="--once" in sys.argv)))


if __name__ == "__main__":
    main()
