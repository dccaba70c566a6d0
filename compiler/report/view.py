"""What of a placement map is to be shown, and how wide."""

from __future__ import annotations

from attrs import frozen

from compiler.report.ink import Ink


@frozen
class View:
    """`depth` None chooses one that fits a screen; `width` is in characters.

    `every_clone` shows every clone by itself, also those that are alike and would be shown as one.
    """

    depth: int | None = None
    glob: str | None = None
    only_misplaced: bool = False
    every_clone: bool = False
    width: int = 80
    color: bool = False

    @property
    def ink(self) -> Ink:
        """What text is styled with."""
        return Ink(self.color)

    def nothing(self) -> str:
        """Say that no op is to be shown."""
        kind = "misplaced op" if self.only_misplaced else "op"
        return f"no {kind} matches {self.glob}" if self.glob is not None else f"no {kind}"
