"""The targets of a run as an SVG: one bar for each, from the line where it is just met.

A bar to the right is better than asked for, one to the left is worse; the scale is logarithmic, and ends at four times.
The mark with a ring is where the limit of the same run is. Colours follow the reader's preference for light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from bench.targets import Judged, shown

WIDTH, LINE, TOP, BOTTOM = 1180, 22, 74, 64
#: Where the names end, the scale begins and ends, and the figures begin.
NAMES_END, SCALE_FROM, SCALE_TO, FIGURES = 490, 505, 825, 840
#: The ends of the scale, and what is written at its lines.
FACTOR_MAX = 4.0
LINES = {0.25: "1/4", 0.5: "1/2", 1.0: "target", 2.0: "2 times", 4.0: "4 times"}
STYLE = """
text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #1b1f24 } .title { font-size: 16px; font-weight: 600 }
.dim { fill: #57606a } .paper { fill: #ffffff } .line { stroke: #d0d7de } .target { stroke: #57606a }
.met { fill: #1a7f37 } .missed { fill: #b35900 } .limit { fill: #ffffff; stroke: #0550ae; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .dim { fill: #9198a1 } .paper { fill: #0d1117 } .line { stroke: #30363d }
  .target { stroke: #9198a1 } .met { fill: #3fb950 } .missed { fill: #db8a3c }
  .limit { fill: #0d1117; stroke: #79c0ff }
}
"""


def drawn(targets: Iterable[Judged], machine: dict[str, str]) -> str:
    found = list(targets)
    met = sum(one.met for one in found)
    height = TOP + LINE * len(found) + BOTTOM
    about = f"{met} of {len(found)} targets met. " + " ".join(f"{one.what}: {_told(one)}." for one in found)
    bottom = TOP + LINE * len(found)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' role="img">',
        f"<title>{met} of {len(found)} targets met</title><desc>{escape(about)}</desc><style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="16" y="28">What was measured, beside its target: {met} of {len(found)} met</text>',
        *_scale(bottom),
        *(part for number, one in enumerate(found) for part in _row(one, TOP + LINE * number)),
        *_notes(machine, bottom),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _scale(bottom: int) -> Iterable[str]:
    for factor, word in LINES.items():
        x = _x(factor)
        kind = "target" if factor == 1 else "line"
        yield f'<text class="dim" x="{x}" y="{TOP - 14}" text-anchor="middle">{word}</text>'
        yield f'<line class="{kind}" x1="{x}" x2="{x}" y1="{TOP - 6}" y2="{bottom}"/>'


def _row(one: Judged, y: int) -> Iterable[str]:
    middle, text = y + LINE / 2, y + LINE / 2 + 4
    start, end = sorted((_x(1.0), _x(_factor(one, one.told))))
    kind, word = ("met", "yes") if one.met else ("missed", "no")
    yield f'<text x="{NAMES_END}" y="{text}" text-anchor="end">{escape(one.what)}</text>'
    width = max(2.0, end - start)
    yield f'<rect class="{kind}" x="{start}" y="{y + 4}" width="{width:.1f}" height="{LINE - 8}" rx="2"/>'
    if one.limit is not None:
        x = _x(_factor(one, 1.0 if one.of_ratio else one.limit))
        yield f'<circle class="limit" cx="{x}" cy="{middle}" r="4"><title>{escape(one.limit_name)}</title></circle>'
    yield f'<text x="{FIGURES}" y="{text}">{escape(_told(one))}<tspan class="dim"> met: {word}</tspan></text>'


def _notes(machine: dict[str, str], bottom: int) -> Iterable[str]:
    notes = (
        "The ring is the limit that was measured in the same run: a bare loop, pgbench, a constant answer, a peer.",
        f"{machine['machine']}; {machine['Python']}; SQLite {machine['SQLite'].split()[0]};"
        f" PostgreSQL {machine['PostgreSQL'].split()[0]}",
    )
    for number, note in enumerate(notes):
        yield f'<text class="dim" x="16" y="{bottom + 28 + 18 * number}">{escape(note)}</text>'


def _told(one: Judged) -> str:
    bound = "≥" if one.at_least else "≤"
    if one.of_ratio:
        return f"{one.told:.2f} of {one.limit_name} ({bound} {shown(one.wanted)})"
    return f"{shown(one.measured)} {one.unit} ({bound} {shown(float(one.wanted))})"


def _factor(one: Judged, value: float) -> float:
    """How many times better than the target."""
    if value <= 0:
        return 1 / FACTOR_MAX if one.at_least else FACTOR_MAX
    return value / one.wanted if one.at_least else one.wanted / value


def _x(factor: float) -> float:
    bounded = min(FACTOR_MAX, max(1 / FACTOR_MAX, factor))
    share = (math.log(bounded, FACTOR_MAX) + 1) / 2
    return round(SCALE_FROM + share * (SCALE_TO - SCALE_FROM), 1)
