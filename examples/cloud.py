"""The first of two agents: it only writes drafts, and a person has to approve a draft before it is carried out.

Its policy enforces this (`dibs agent set cloud --sensitive send`): the board refuses its `done`, whatever it calls.

    dibs agent set cloud --sensitive send
    dibs agent set local --allow send --sensitive send
    dibs add "Apologise for the delay" --id sorry --action send
    python examples/cloud.py --once
    dibs show sorry                          # the draft, and the revision of the item
    dibs approve sorry --revision 4          # or send-back, or reject
    python examples/local.py --once
"""

from __future__ import annotations

import sys

import dibs
from dibs.sdk.claim_handle import ClaimHandle
from dibs.worker import Draft, Worker


def main() -> None:
    with dibs.connect() as board:
        worker = Worker(board, "cloud", log="agent-cloud.log")

        @worker.handles()
        def draft(claim: ClaimHandle) -> Draft:
            text = f"Dear customer,\n\n{claim.item.title}.\n"
            if claim.previous is not None and claim.previous.comment is not None:
                # A person sent the last draft back: the comment says what to change.
                text += f"\n({claim.previous.comment})\n"
            return Draft(text)

        print(dict(worker.run(once="--once" in sys.argv)))


if __name__ == "__main__":
    main()
