"""Curves as an SVG picture, which every browser shows and scales."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from dsl.formats.cells import printable
from tfdeploy.runtime.show.curves import Curve, Frame

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 800, 450
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 40, 50
COLORS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#56b4e9",
)  # told apart without colour vision
FONT = 'font-family="sans-serif" font-size="13"'
TICKS = 5
LINE = 20


def picture(curves: Sequence[Curve], title: str) -> str:
    """Return the text of an SVG file with `curves`, axes and a legend.

    Args:
        curves: The curves, of which at least one has a point.
        title: The text above them.
    """
    frame = Frame.around(curves)
    height = HEIGHT + LINE * len(curves)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        "<!-- made by tfdeploy -->",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{escape(title)}</text>',
    ]
    parts += [_tick(frame, number / (TICKS - 1)) for number in range(TICKS)]
    parts += [_curve(frame, curve, COLORS[at % len(COLORS)]) for at, curve in enumerate(curves)]
    parts += [_legend(at, curve) for at, curve in enumerate(curves)]
    return printable("\n".join([*parts, "</svg>", ""]))


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _tick(frame: Frame, share: float) -> str:
    step = frame.left + share * (frame.right - frame.left)
    value = frame.bottom + share * (frame.top - frame.bottom)
    x, y = _x(share), _y(share)
    return (
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>'
        f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{step:,.0f}</text>'
    )


def _curve(frame: Frame, curve: Curve, color: str) -> str:
    places = [(_x(frame.across(step)), _y(frame.up(value))) for step, value in curve.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    x, y = places[-1]
    return (
        f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>'
    )


def _legend(at: int, curve: Curve) -> str:
    y = HEIGHT + LINE * at
    step, value = curve.points[-1]
    said = escape(f"{curve.label}: {value:.4g} at step {step:,}")
    color = COLORS[at % len(COLORS)]
    return (
        f'<rect x="{LEFT}" y="{y - 9}" width="18" height="4" fill="{color}"/>'
        f'<text x="{LEFT + 26}" y="{y}">{said}</text>'
    )
