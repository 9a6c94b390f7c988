"""The second of two agents: it carries out an approved draft word for word, and nothing else. See cloud.py.

Its policy enforces this (`dibs agent set local --allow send --sensitive send`): it gets no item without an approval.
"""

from __future__ import annotations

import sys

import dibs
from dibs.sdk.claim_handle import ClaimHandle
from dibs.worker import Worker

OUTBOX = "outbox.txt"


def main() -> None:
    with dibs.connect() as board:
        worker = Worker(board, "local", log="agent-local.log")

        @worker.handles()
        def send(claim: ClaimHandle) -> str:
            letter = claim.approved_draft
            if letter is None or claim.approval is None:
                # The item was approved before there was a draft, so there is nothing to send.
                claim.release("there is no draft that was approved", park=True)
                return ""
            # The last check before a step that cannot be undone.
            claim.verify()
            with open(OUTBOX, "a", encoding="utf-8") as outbox:
                outbox.write(letter)
            return f"sent, as {claim.approval.actor} approved it"

        print(dict(worker.run(once="--once" in sys.argv)))


if __name__ == "__main__":
    main()
