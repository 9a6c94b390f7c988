"""The other half of the pair: the agent that does what was approved, word for word, and nothing else. See cloud.py.

Its policy says so (`dibs agent set local --allow send --sensitive send`): it is handed nothing that nobody approved.
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
                # Approved before anybody wrote a draft: there is nothing here that could be sent.
                claim.release("there is no draft that was approved", park=True)
                return ""
            # The last look before what cannot be taken back.
            claim.verify()
            with open(OUTBOX, "a", encoding="utf-8") as outbox:
                outbox.write(letter)
            return f"sent, as {claim.approval.actor} approved it"

        print(dict(worker.run(once="--once" in sys.argv)))


if __name__ == "__main__":
    main()
