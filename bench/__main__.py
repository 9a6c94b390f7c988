"""Measure, print a table for each part and one of all targets, write JSON and a picture.

    python -m bench                         what `make bench` does: every part that a target is about
    python -m bench drain costs             these parts
    python -m bench postgres --rounds 1     options come after the names, and go to each part
    python -m bench --list                  the parts, with a sentence each
    python -m bench --svg FILE              draw the targets of the last run again, into FILE
    python -m bench --write FILE            write the tables of a page of the documents again, from the last two runs

Which figure of which part a target is about is in `bench/targets.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
from typing import Any

from bench import chart, machine, pages, parts, targets
from bench.parts import NAMES, Rows

RESULTS, PREVIOUS, PICTURE = "bench/latest.json", "bench/previous.json", "bench/latest.svg"


def main(words: list[str]) -> None:
    names = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    options = words[len(names) :]
    unknown = [name for name in names if name not in NAMES]
    if options == ["--list"]:
        _list()
    elif options[:1] == ["--svg"] and len(options) == 2:
        _draw(options[1])
    elif options[:1] == ["--write"] and len(options) == 2:
        _write_tables(options[1])
    elif unknown or (options and not names):
        sys.exit(f"bench: {' '.join(unknown or options)} is no part; the parts are {', '.join(NAMES)}")
    else:
        _measure({name: tuple(options) for name in names} or parts.OF_TARGETS)


def _measure(wanted: dict[str, tuple[str, ...]]) -> None:
    # Without compiled modules every process would compile dibs anew, and that is not what users do.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Ended from outside, it ends the servers that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    where = machine.facts()
    for name, fact in where.items():
        print(f"{name}: {fact}")
    found: dict[str, Rows] = {}
    told: dict[str, object] = {}
    for name, options in wanted.items():
        start = time.monotonic()
        title, rows = parts.run(name, options)
        seconds = round(time.monotonic() - start, 1)
        found[name] = rows
        told[name] = {"title": title, "seconds": seconds, "rows": rows}
        show(f"{title} [bench/{name}.py, {seconds:g} s]", rows)
    judged = targets.judged(found)
    if judged:
        show("Targets, each beside its limit in the same run", [one.row() for one in judged])
    if os.path.exists(RESULTS):
        os.replace(RESULTS, PREVIOUS)
    with open(RESULTS, "w", encoding="utf-8") as file:
        json.dump({"machine": where, "parts": told, "targets": [one._asdict() for one in judged]}, file, indent=2)
    print(f"written to {RESULTS}")
    if judged:
        _draw(PICTURE)


def show(title: str, rows: Rows) -> None:
    print(f"\n{title}")
    columns = list(rows[0])
    table = [columns, *([shown(row[c]) for c in columns] for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)), flush=True)


def shown(value: object) -> str:
    if value is None:
        return "-"
    return targets.shown(value) if isinstance(value, float) else str(value)


def _list() -> None:
    for name in NAMES:
        print(f"{name:12} {'' if name in parts.OF_TARGETS else '(by name only) '}{parts.sentence(name)}")


def _write_tables(path: str) -> None:
    last, judged = _run(RESULTS)
    before = _run(PREVIOUS)[1] if os.path.exists(PREVIOUS) else []
    found = pages.tables(last["machine"], judged, before, last["parts"].get("fleet"))
    with open(path, encoding="utf-8") as page:
        text = page.read()
    with open(path, "w", encoding="utf-8") as page:
        page.write(pages.filled(text, found))


def _draw(path: str) -> None:
    last, judged = _run(RESULTS)
    with open(path, "w", encoding="utf-8") as picture:
        picture.write(chart.drawn(judged, last["machine"]))
    print(f"drawn in {path}")


def _run(path: str) -> tuple[dict[str, Any], list[targets.Judged]]:
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    return run, [targets.Judged(**one) for one in run["targets"]]


if __name__ == "__main__":
    main(sys.argv[1:])
