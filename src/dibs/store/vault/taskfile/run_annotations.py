"""Annotations of runs: one line below the block of each run, with all values that were added to the run.

The line has the actor and the time of the latest annotation, and names the run by its token. Actor, time and token
identify an annotation in all clones, whatever values its line has by now.
"""

from __future__ import annotations

from dibs import check, run_checks
from dibs.errors import Invalid
from dibs.store.vault.taskfile.parsing import json_value
from dibs.store.vault.taskfile.run_blocks import SIGNED_LINE, blocks, instant, unquoted
from dibs.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from dibs.model import Run
    from dibs.model.kinds import Instant

LABEL = "Annotated By"


class Annotation(Value):
    """Links, checks and costs that were added to the run under `token`; `at` is by the clock where that was done."""

    token: int
    actor: str
    at: Instant
    values: dict[str, dict[str, Any]]

    @property
    def key(self) -> tuple[int, int, str]:
        return self.token, self.at, self.actor


def read(lines: list[str]) -> Iterator[tuple[int, Annotation]]:
    """The annotations with their line numbers. A line within a draft does not count, nor one with a wrong value."""
    fenced = {at for block in blocks(lines) if block.fence is not None for at in range(*block.fence)}
    for at, line in enumerate(lines):
        match = SIGNED_LINE.fullmatch(line.removesuffix("\r")) if line.startswith(f"**{LABEL}**") else None
        data = None if match is None or at in fenced else json_value(match[4] or "", None)
        if match is None or not isinstance(data, dict):
            continue
        try:
            annotation = Annotation(
                token=check.whole(data.get("run"), "run", low=1, high=check.TOKEN_MAX),
                actor=check.name(unquoted(match[2]), "actor"),
                at=instant(match[3]),
                values={
                    "links": check.json_object(data.get("links", {}), "links"),
                    "checks": run_checks.checked(data.get("checks", {}), check.JSON_BYTES_MAX),
                    "cost": check.json_object(data.get("cost", {}), "cost"),
                },
            )
        except Invalid:
            continue
        yield at, annotation


def merge(annotations: Iterable[Annotation]) -> dict[int, dict[str, dict[str, Any]]]:
    """The values of all annotations, by the token of their run. Of two values under one name, the later one counts."""
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for one in annotations:
        merged = found.setdefault(one.token, {})
        merged |= {name: {**merged.get(name, {}), **values} for name, values in one.values.items() if values}
    return found


def current(run: Run, annotated: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The values that the run has now under the annotated names: its end may have replaced some of them."""
    return {
        name: {key: getattr(run, name).get(key, value) for key, value in values.items()}
        for name, values in annotated.items()
    }
