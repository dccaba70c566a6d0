"""Damage to texts of JSON, drawn by Hypothesis: what a slip, a crash, a disk or a stranger may do to them."""

import json
from typing import Any

from hypothesis import strategies as st

STRANGE = (
    "null", "true", "-1", "0", "1.5", "1e999", "-1e999", "NaN", "Infinity", "1e308", "-1e308", "9" * 25,
    "9223372036854775807", "9223372036854775808", "7" * 5000, '""', '"x"', '"7"', '"\\ud800"', '"\\u001b[2J"',
    '"\\u0000"', "[]", "[[]]", "{}", '{"": null}', '["x"]', "[" * 20_000, '{"a":' * 20_000,
)  # fmt: skip
"""Texts that take the place of a value; not all of them are JSON."""

HOLE = "a hole for a strange value"


@st.composite
def damaged(draw: st.DrawFn, text: str) -> bytes:
    """Draw what becomes of `text`, which is JSON: a value replaced or left out, or bytes cut or altered."""
    if draw(st.booleans()):
        return _altered(draw, text.encode())
    content = json.loads(text)
    place = draw(st.sampled_from(_places(content)))
    if place and draw(st.integers(0, 3)) == 0:
        return json.dumps(_without(content, place)).encode()
    written = json.dumps(_with(content, place, HOLE))
    return written.replace(json.dumps(HOLE), draw(st.sampled_from(STRANGE)), 1).encode()


def _altered(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data)))
    until = draw(st.integers(at, min(len(data), at + 8)))
    return data[:at] + draw(st.binary(max_size=3)) + (data[until:] if draw(st.booleans()) else b"")


def _places(content: Any) -> list[tuple[Any, ...]]:
    """Return the paths to every value in `content`, the whole included."""
    inner: list[tuple[Any, ...]] = []
    if isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        inner = [(key, *rest) for key, each in items for rest in _places(each)]
    return [(), *inner]


def _with(content: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    copy = content.copy()
    copy[place[0]] = _with(content[place[0]], place[1:], value)
    return copy


def _without(content: Any, place: tuple[Any, ...]) -> Any:
    copy = content.copy()
    if len(place) == 1:
        del copy[place[0]]
    else:
        copy[place[0]] = _without(content[place[0]], place[1:])
    return copy
