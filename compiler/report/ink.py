"""A little colour for the terminal; nothing is said by colour alone."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

_CODES = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "cyan": "36"}

Style = Literal["bold", "dim", "red", "yellow", "cyan"]


@frozen
class Ink:
    """Styles text if `color` is wanted."""

    color: bool = False

    def __call__(self, text: str, style: Style) -> str:
        """Return `text` in a style."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.color and text else text
