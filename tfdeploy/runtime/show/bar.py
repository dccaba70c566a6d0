"""A column of the progress bar: rich is imported with it, which only terminals need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress import ProgressColumn
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Task


class Figures(ProgressColumn):
    """Loss, metrics and speed in one line, cut off at the end if there is no room for all of it."""

    def render(self, task: Task) -> Text:
        """Return what the task says."""
        return Text(str(task.fields["said"]), no_wrap=True, overflow="ellipsis")
