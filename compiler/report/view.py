"""What is shown of a placement map, and how."""

from __future__ import annotations

from attrs import frozen

from compiler.report.ink import Ink


@frozen
class View:
    """What is shown of a placement map, and how.

    Attributes:
        depth: The levels of scopes, or None for as many as fit a screen.
        glob: Chooses the ops that are shown, or None for all.
        only_misplaced: Whether only misplaced ops are shown.
        every_clone: Whether equal clones are shown separately.
        width: The width in characters.
        color: Whether text is coloured.
    """

    depth: int | None = None
    glob: str | None = None
    only_misplaced: bool = False
    every_clone: bool = False
    width: int = 80
    color: bool = False

    @property
    def ink(self) -> Ink:
        """The styles of text."""
        return Ink(self.color)

    def nothing(self) -> str:
        """Return the message that there is no op to show."""
        kind = "misplaced op" if self.only_misplaced else "op"
        return f"no {kind} matches {self.glob}" if self.glob is not None else f"no {kind}"
