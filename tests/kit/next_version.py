"""A next version of dibs: a copy of the sources in which an item, an answer and an event have one more field, and whose
schema is one higher."""

from __future__ import annotations

import shutil
from pathlib import Path

from dibs.store.postgres.migrating import SCHEMA_VERSION

SOURCES = Path(__file__).parent.parent.parent / "src" / "dibs"
#: The names of what is new. The item's has a column.
NEW = frozenset({"flavour", "warmth"})
COLUMN = "ALTER TABLE {} ADD COLUMN flavour text NOT NULL DEFAULT 'plain'"
#: The module with the version of each store's schema, and the migration to the next one. Only PostgreSQL serves two
#: versions at once: this version refuses a file that the next one has opened.
SCHEMAS = {
    "postgres": ("migrating.py", COLUMN.format("dibs.items")),
    "sqlite": ("database.py", COLUMN.format("items")),
}
NEXT_SCHEMA = SCHEMA_VERSION + 1
#: What the next version does otherwise: in which module, in place of what.
CHANGES = (
    (
        "model/records.py",
        "    review: Flag = False\n\n\n# A verb",
        '    review: Flag = False\n    flavour: Text = "plain"\n\n\n# A verb',
    ),
    ("model/results.py", "    renewed: Flag = False\n", "    renewed: Flag = False\n    warmth: Count = 7\n"),
    ("model/results.py", "    renewed: Flag = True\n", "    renewed: Flag = True\n    warmth: Count = 7\n"),
    ("model/results.py", "    existed: Flag = False\n", "    existed: Flag = False\n    warmth: Count = 7\n"),
    ("model/results.py", "    item: Item\n    run: Run\n", "    item: Item\n    run: Run\n    warmth: Count = 7\n"),
    ("model/results.py", "    released: ItemIds\n", "    released: ItemIds\n    warmth: Count = 7\n"),
    ("model/results.py", "    ended: tuple[Ended, ...]\n", "    ended: tuple[Ended, ...]\n    warmth: Count = 7\n"),
    ("rules/items.py", "actor=actor, data=content\n", 'actor=actor, data={**content, "flavour": "plain"}\n'),
    ("rules/fencing.py", 'data={"note": note, "meta": meta},', 'data={"note": note, "meta": meta, "warmth": 7},'),
    (
        "store/postgres/answers.py",
        '            "renewed": False,\n',
        '            "renewed": False,\n            "warmth": 7,\n',
    ),
    # Its functions on PostgreSQL would answer with the column.
    ("store/postgres/answers.py", "    fields = dict(zip(", '    fields = {"flavour": "plain"} | dict(zip('),
)


def made(folder: Path, *migrating: str) -> Path:
    """The folder of the copy, for the PYTHONPATH of its processes, with the next schema of the stores `migrating`."""
    package = folder / "next" / "dibs"
    shutil.copytree(SOURCES, package, ignore=shutil.ignore_patterns("__pycache__"))
    for module, before, after in CHANGES:
        _replace(package / module, before, after)
    for store in migrating:
        module, migration = SCHEMAS[store]
        _replace(
            package / "store" / store / module,
            f"SCHEMA_VERSION = {SCHEMA_VERSION}\n",
            f"SCHEMA_VERSION = {NEXT_SCHEMA}\n",
        )
        (package / "store" / store / "migrations" / f"{NEXT_SCHEMA:04}.sql").write_text(migration, encoding="utf-8")
    return package.parent


def _replace(path: Path, before: str, after: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path} has {text.count(before)} times: {before}"
    path.write_text(text.replace(before, after), encoding="utf-8")


def without_news(told: object) -> object:
    """An answer without what is new in the next version."""
    if isinstance(told, list):
        return [without_news(one) for one in told]
    if isinstance(told, dict):
        return {name: without_news(value) for name, value in told.items() if name not in NEW}
    return told
