"""The numbers of tasks and clones in names: the texts in which they are found."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

_DEVICE = r"(?:(?P<job>\w+)\[(?P<task>\d+)\]\.)?(?P<kind>cpu|gpu)\[(?P<index>\d+)\]"
_CLONES = (
    r"/job_(?P<of_job>\w+?)/replica_0/task_(?P<of_task>\d+)/device_(?P<of_kind>CPU|GPU)_(?P<of_index>\d+)"
    r"|(?:clone|replica)_(?P<clone>\d+)(?!\w)"
    r"|/at_(?:(?P<at_job>\w+?)_(?P<at_task>\d+)_)?(?P<at_kind>cpu|gpu)_(?P<at_index>\d+)(?!\w)"
    r"|(?:^|(?<=Recv_))input(?:/(?P<pipe>\d+))?(?:/clone_(?P<fed>\d+))?(?=/)"
    r"|(?<=split/)\w+:(?P<piece>\d+)$"
    r"|^(?:Recv_)?(?:average/.+|total_loss)/copy_(?P<copy>\d+)(?=/)"
)

_SUM = r"^(?:Recv_)?aggregate/.+/group_(?P<sum>\d+)(?=$|[/:]|_\d+_on_)"
"""If the clones of each task are summed there, there are also these sums, numbered by task."""

_PACK = r"^(?:Recv_)?aggregate/bucket_\d+/pack_(?P<pack>\d+)(?=/)"
"""There, too, the gradients that a clone packs have its number. If all clones are summed in one place, only
counting shows that number."""

_PRESENT = r"cluster/present/unstack(?:_1)?(?::(?=\d+$)|_(?=\d+_on_))"
_BOX = rf"^(?:Recv_)?(?:mail/.+?/worker_(?=\d+/)|{_PRESENT})(?P<box>\d+)"
"""In a graph that a worker has of its own there are also the boxes in which it finds gradients. If workers
may be missing, there is a number for each that says whether it is present, and one that says how much it
counts."""


@frozen
class Tokens:
    """What is looked for in names.

    Attributes:
        named: What is looked for in names with brackets, which only devices have.
        plain: What is looked for in others. Names of ops are of this kind, and devices among the tokens would
            take most of the time, because a job can have any name.
    """

    named: re.Pattern[str]
    plain: re.Pattern[str]

    @classmethod
    def of(cls, *tokens: str) -> Tokens:
        """Return the tokens for texts that may name devices and for others."""
        return cls(re.compile("|".join((*tokens, _DEVICE))), re.compile("|".join(tokens)))

    def within(self, text: str, start: int) -> Iterator[re.Match[str]]:
        """Return the tokens in a text.

        Args:
            text: The text.
            start: Where to begin.
        """
        return (self.named if "[" in text else self.plain).finditer(text, start)


TOKENS = Tokens.of(_CLONES)
TOKENS_OF_SUMS = Tokens.of(_SUM, _PACK, _CLONES)
TOKENS_OF_WORKER = Tokens.of(_BOX, _CLONES)

HINT = re.compile(r"clone_|replica_|cpu|gpu|CPU|GPU|input/|split/|group_|pack_|worker_|copy_|unstack")
"""Texts of which there is at least one in each token: they are found faster than tokens."""
