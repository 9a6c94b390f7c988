"""A recording of the story as an animated SVG: lines appear at their times, and scroll when the screen is full.

There is no script in it. All lines are there from the beginning: a cover in the colour of the background lies over
those that are not printed yet, and one CSS animation moves the cover, another one the text. Without them, for readers
who prefer reduced motion, the last screen is shown. A browser may not tell an `<img>` of that preference; the address
of the picture with `#still` is that of the last screen, too.
"""

from __future__ import annotations

from dibs.cli.render import spans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS, ROWS = 100, 32
#: In pixels: a character of a monospace font of this size, and the distance of two lines.
FONT, CHARACTER, LINE = 13, 7.83, 18
MARGIN = 16
#: How long the last screen is shown before the story begins again.
HOLD_SECONDS = 6.0
#: Lines that were printed so close together appear at once.
TOGETHER_SECONDS = 0.03
#: Longer waits are shortened to this.
WAIT_SECONDS_MAX = 1.5
#: The colours of the dashboard, light and dark. Bright ones are those of agents, and need not differ.
COLOURS = {
    "paper": ("#ffffff", "#0d1117"),
    "edge": ("#d0d7de", "#30363d"),
    "text": ("#1b1f24", "#e6edf3"),
    "dim": ("#57606a", "#9198a1"),
    "red": ("#a40e26", "#ffa198"),
    "green": ("#116329", "#7ee787"),
    "yellow": ("#7a4c00", "#f2cc60"),
    "blue": ("#0550ae", "#79c0ff"),
    "magenta": ("#6639ba", "#d2a8ff"),
    "cyan": ("#0b5e66", "#76e3ea"),
}
STYLES = ("dim", "red", "green", "yellow", "blue", "magenta", "cyan")
TITLE = "dibs demo"
STILL = "still"
ABOUT = (
    "A fleet of worker processes on one board: two claim the same item, one is killed, one is stopped and comes back"
    " too late, one drafts what a person approves. Every statement at the end was checked against the board."
)


def render(recording: Sequence[tuple[float, str]]) -> str:
    """The SVG of lines, each with the seconds since the start at which it was printed."""
    while recording and not recording[0][1].strip():
        recording = recording[1:]
    lines = [line for _, line in recording]
    screen_width, screen_height = round(COLUMNS * CHARACTER), ROWS * LINE
    width, height = screen_width + 2 * MARGIN, screen_height + 2 * MARGIN
    texts = "\n".join(_text(line, number) for number, line in enumerate(lines) if line)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" id="{STILL}" role="img"
 viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<title>{TITLE}</title>
<desc>{_escaped(ABOUT)}</desc>
<style>
{_style(recording)}
</style>
<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>
<svg x="{MARGIN}" y="{MARGIN}" width="{screen_width}" height="{screen_height}">
<g class="lines" xml:space="preserve">
{texts}
</g>
<rect class="cover" width="{screen_width}" height="{screen_height}"/>
</svg>
</svg>
"""


def _style(recording: Sequence[tuple[float, str]]) -> str:
    steps = _steps([seconds for seconds, _ in recording])
    total = (steps[-1][0] if steps else 0) + HOLD_SECONDS
    count = len(recording)
    light, dark = ("".join(f"--{name}:{shades[index]};" for name, shades in COLOURS.items()) for index in range(2))
    scroll = [(seconds, -LINE * max(0, printed - ROWS)) for seconds, printed in steps]
    cover = [(seconds, LINE * min(ROWS, printed)) for seconds, printed in steps]
    return "\n".join(
        [
            f":root{{{light}}}",
            f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}",
            f'text{{font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;'
            "fill:var(--text);white-space:pre}",
            ".paper{fill:var(--paper);stroke:var(--edge)}",
            ".cover{fill:var(--paper)}",
            ".bold{font-weight:700}",
            *(f".{name}{{fill:var(--{name})}}" for name in STYLES),
            f".lines{{transform:translateY({scroll[-1][1] if scroll else 0}px)}}",
            f".cover{{transform:translateY({LINE * min(ROWS, count)}px)}}",
            "@media (prefers-reduced-motion:no-preference){",
            f".lines{{animation:scroll {total:.2f}s step-end infinite}}",
            f".cover{{animation:cover {total:.2f}s step-end infinite}}",
            "}",
            f"#{STILL}:target .lines,#{STILL}:target .cover{{animation:none}}",
            _keyframes("scroll", scroll, total),
            _keyframes("cover", cover, total),
        ]
    )


def _steps(times: Sequence[float]) -> list[tuple[float, int]]:
    """When the screen changes, and how many lines are printed then."""
    steps: list[tuple[float, int]] = []
    shown, before = 0.0, times[0] if times else 0.0
    for number, seconds in enumerate(times, start=1):
        if steps and seconds - before < TOGETHER_SECONDS:
            steps[-1] = (shown, number)
            continue
        shown += min(WAIT_SECONDS_MAX, seconds - before)
        steps.append((shown, number))
        before = seconds
    return steps


def _keyframes(name: str, steps: Sequence[tuple[float, int]], total: float) -> str:
    frames, before = ["0%{transform:translateY(0px)}"], 0
    for seconds, offset in steps:
        if offset != before:
            frames.append(f"{100 * seconds / total:.3f}%{{transform:translateY({offset}px)}}")
            before = offset
    return f"@keyframes {name}{{{''.join(frames)}100%{{transform:translateY({before}px)}}}}"


def _text(line: str, number: int) -> str:
    pieces = []
    for styles, text in spans(line):
        classes = " ".join(style.removeprefix("bright ") for style in styles)
        pieces.append(f'<tspan class="{classes}">{_escaped(text)}</tspan>' if classes else _escaped(text))
    return f'<text y="{number * LINE + FONT}">{"".join(pieces)}</text>'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
