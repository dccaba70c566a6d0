"""Whether a run waits for its data, and what helps then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define

if TYPE_CHECKING:
    from dsl import ir
    from tfdeploy.runtime.records.result import Clock

MUCH = 0.25  # of the training time
TELLING = 5.0  # seconds of training, from which on the share tells something


@define
class Waiting:
    """Notices, once, that steps wait for data."""

    _said: bool = False

    def notice(self, clock: Clock) -> float | None:
        """Return the share of the training time that was spent waiting, when that is to be said."""
        if self._said or clock.train < TELLING:
            return None
        share = clock.waiting
        if share is None or share < MUCH:
            return None
        self._said = True
        return share


def remedy(train: ir.Split) -> str:
    """Return what can be done where reading `train` is slower than the steps."""
    names = [call.name for call in train.transforms]
    if train.source.name == "python":
        slow = f"the source `{train.source.name}` yields examples one by one"
        return f"{slow}; make it quicker, or write its examples to TFRecord files once"
    if "cache" not in names:
        return (
            "if the examples fit into memory, `-> cache()` before `shuffle` reads and decodes them only once"
        )
    return "steps with more work in them, fewer transforms or a quicker disk help; more clones do not"
