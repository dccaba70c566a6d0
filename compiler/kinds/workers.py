"""What is known of workers that have graphs of their own, beside the graph of the first of them.

The graphs of workers are alike. Each has its clones on its own devices, and leaves what others take in boxes
beside the variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

from compiler.kinds.grid import NotAlikeError, Spot
from compiler.kinds.patterns import Patterns
from compiler.kinds.templates import NAMES, TASK
from compiler.mapping.records import MapTransfer
from compiler.step.read.held import Held


@frozen
class Workers:
    """What is known of workers that have graphs of their own.

    Attributes:
        of_chief: The names of the ops that only the first worker has.
        sent: What a step of another worker sends, with all tensors, as if it were the first.
        held: The bytes that each worker more adds to what a device holds beside variables and slots, by the
            name of the device.
    """

    of_chief: frozenset[str]
    sent: tuple[MapTransfer, ...]
    held: Mapping[str, int]


def held_for_each(
    few: Iterable[Held], more: Iterable[Held], patterns: Patterns, workers: tuple[int, int]
) -> dict[str, int]:
    """Return the bytes that each worker more adds to what devices hold, by the names of these.

    Raises:
        NotAlikeError: Something else grows with the number of workers, or otherwise.
    """
    found: dict[str, int] = {}
    few, larger = list(few), {each.name: each for each in more}
    for each in few:
        spot, twin = patterns.of(each.name).spot, larger.get(each.name)
        if twin is None or twin.device != each.device:
            raise NotAlikeError(f"only few workers have {each.name}")
        added = each.bytes if spot.host == 1 else 0
        if twin.bytes != each.bytes:  # it has a number for each worker
            added, rest = divmod(each.bytes, workers[0])
            if rest or twin.bytes != added * workers[1]:
                raise NotAlikeError(f"{each.name} does not grow with the number of workers")
        found[each.device] = found.get(each.device, 0) + added
    for ref, added in found.items():
        sizes = [sum(each.bytes for each in held if each.device == ref) for held in (few, larger.values())]
        if sizes[1] - sizes[0] != added * (workers[1] - workers[0]):
            raise NotAlikeError(f"what {ref} holds does not grow with the number of workers")
    return found


def first_worker(spot: Spot) -> Spot:
    """Return the place on the first worker that is like a place on any worker."""
    return Spot(None if spot.host is None else 0, spot.group)


def at_first(text: str) -> str:
    """Return a template of other workers with the task's number in the graph of the first."""
    return text.replace(f"{{{NAMES[TASK]}}}", "0")
