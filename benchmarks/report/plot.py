"""A bar chart in SVG, made without a plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log2

from benchmarks.report.results import Ratio

ROW, LEFT, WIDTH, REACH = 18, 330, 420, 5  # pixels; the scale goes from 1 / 2**REACH to 2**REACH


def bars(ratios: Sequence[Ratio]) -> str:
    """Return a chart with a bar for each ratio, on a scale of powers of two; to the right ours is better."""
    height = ROW * (len(ratios) + 2)
    middle = LEFT + WIDTH / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 70} {height}"',
        ' font-family="sans-serif" font-size="12">',
        f'<text x="{middle}" y="12" text-anchor="middle">better than the peer by a factor of</text>',
    ]
    for power in range(-REACH, REACH + 1):
        x = middle + WIDTH / 2 * power / REACH
        label = str(2**power) if power >= 0 else f"1/{2**-power}"
        parts.append(f'<line x1="{x}" x2="{x}" y1="{ROW}" y2="{height}" stroke="#ddd"/>')
        parts.append(f'<text x="{x}" y="{ROW + 10}" text-anchor="middle" fill="#777">{label}</text>')
    parts += [_bar(ratio, middle, ROW * (at + 2)) for at, ratio in enumerate(ratios)]
    return "\n".join([*parts, "</svg>", ""])


def _bar(ratio: Ratio, middle: float, y: float) -> str:
    length = WIDTH / 2 * max(-REACH, min(REACH, log2(ratio.spread.median))) / REACH
    x, width = (middle, length) if length >= 0 else (middle + length, -length)
    colour = "#2a7f62" if length >= 0 else "#b3541e"
    label = escape(f"{ratio.model} x{ratio.towers} / {ratio.peer}: {ratio.measure}")
    return (
        f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{label}</text>'
        f'<rect x="{x}" y="{y + 2}" width="{max(width, 1)}" height="{ROW - 5}" fill="{colour}"/>'
        f'<text x="{LEFT + WIDTH + 8}" y="{y + 12}">{ratio.spread.median:.2f}</text>'
    )
