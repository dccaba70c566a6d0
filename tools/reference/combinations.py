"""The page of what can be combined, from the table that the checks of a plan are made of."""

from __future__ import annotations

from compiler.compatibility import CONFLICTS, Conflict
from tools.reference.markdown import NOTICE, table

INTRODUCTION = """\
# What can be combined

Every mode, aggregation, placement and choice of numerics may be joined with every other, but for these. Whoever joins
them gets the code, the reason and the remedy, at the place in the spec.

"""


def page() -> str:
    """Return the text of the page."""
    rows = [_row(each) for each in CONFLICTS]
    return NOTICE + INTRODUCTION + table(["not together", "why", "instead", "code"], rows).rstrip("\n") + "\n"


def _row(conflict: Conflict) -> list[str]:
    values = {aspect: " or ".join(these) for aspect, these in conflict.when}
    return [
        conflict.message.format(**values),
        conflict.reason,
        conflict.nearest,
        f"[{conflict.code}](../../tfdeploy/pages/{conflict.code}.md)",
    ]
