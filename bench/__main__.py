"""Run the measurements named on the line, or all of them; print one table each and write everything as JSON.

Options come after the names and go to each of them: `python -m bench postgres --rounds 1`.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys

NAMES = (
    *("startup", "drain", "costs", "wakeup", "growth", "dashboard", "page", "postgres", "horizon", "serving"),
    *("hot_verbs", "many_agents", "vault", "hooks", "mcp", "top"),
)
RESULTS = "bench/latest.json"


def main(words: list[str]) -> None:
    # Without compiled modules every process would compile dibs anew, and that is not what users do.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    names = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    options = words[len(names) :]
    results = {}
    for name in names or NAMES:
        module = importlib.import_module(f"bench.{name}")
        title, rows = module.measure(options) if options else module.measure()
        results[name] = {"title": title, "rows": rows}
        show(title, rows)
    with open(RESULTS, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=2)
    print(f"written to {RESULTS}")


def show(title: str, rows: list[dict[str, object]]) -> None:
    print(f"\n{title}")
    columns = list(rows[0])
    table = [columns, *([_shown(row[c]) for c in columns] for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main(sys.argv[1:])
