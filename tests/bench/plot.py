"""A plot of lines as SVG, for figures that say more as a shape."""

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 360, 64, 48, 40, 150
COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea", "#dc2626", "#475569")

Points = Sequence[tuple[float, float]]


def lines(title: str, x: str, y: str, series: Mapping[str, Points], *, log_x: bool = False, log_y: bool = False) -> str:
    """One line for each series; the axes begin at 0, or with the lowest value where they are logarithmic."""
    every = [point for points in series.values() for point in points]
    across = _Axis([point[0] for point in every], LEFT, WIDTH - RIGHT, log=log_x)
    up = _Axis([point[1] for point in every], HEIGHT - BOTTOM, TOP, log=log_y)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x)}</text>',
        f'<text x="{LEFT}" y="{TOP - 8}" text-anchor="end">{escape(y)}</text>',
    ]
    for tick in up.ticks:
        at = up.place(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e2e8f0"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in across.ticks:
        at = across.place(tick)
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:g}</text>')
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{across.place(px):.1f},{up.place(py):.1f}" for px, py in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{TOP + 16 * number + 4}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    def __init__(self, values: Sequence[float], start: float, end: float, *, log: bool) -> None:
        self._scale = math.log10 if log else float
        low, high = (min(values) if log else 0.0), max(values) or 1.0
        self._low, self._span = self._scale(low), (self._scale(high) - self._scale(low)) or 1.0
        self._start, self._length = start, end - start
        self.ticks = _decades(low, high) if log else _round_steps(high)

    def place(self, value: float) -> float:
        """Where a value stands, in pixels."""
        return self._start + (self._scale(value) - self._low) / self._span * self._length


def _round_steps(high: float) -> list[float]:
    step = 10 ** math.floor(math.log10(high))
    step = step / 5 if high / step < 2 else step / 2 if high / step < 5 else step
    return [number * step for number in range(int(high / step) + 1)]


def _decades(low: float, high: float) -> list[float]:
    found = [10.0**n for n in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    return found if len(found) > 1 else [low, high]
