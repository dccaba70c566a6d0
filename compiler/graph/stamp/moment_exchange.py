"""The sums between towers whose layers normalize by the batches of all clones; each is on one device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import tensorflow as tf
from attrs import frozen

from compiler.graph.fragments import write_traced
from compiler.graph.tower.network.normalization import (
    gradients_kind,
    summed_gradients,
    whole_moments,
)
from compiler.graph.tower.template import MomentExchange, Template
from compiler.plan import Tower
from compiler.reasons import Placed
from compiler.step.record import Tensor
from compiler.step.writer import Spot, StepWriter

SCOPE = "synchronized"
MOMENTS = ("mean", "variance", "count")
GRADIENTS = ("mean", "variance")


def received_tensors(template: Template) -> Iterator[tuple[str, Tensor, str]]:
    """Yield each port through which a tower receives a tensor, that tensor, and its exchange."""
    for exchange in template.exchanges:
        back = [(gradients_kind(at), GRADIENTS, each) for at, each in enumerate(exchange.gradients_received)]
        for kind, parts, ports in (("moments", MOMENTS, exchange.received), *back):
            for part, port in zip(parts, ports, strict=False):
                if port is not None:
                    name = f"{SCOPE}/{exchange.name}/{kind}/{part}"
                    shape = () if part == MOMENTS[-1] else exchange.shape
                    yield port, Tensor(name, exchange.dtype, shape), exchange.name


@frozen
class JoinedExchange:
    """An exchange between all towers."""

    placed: Placed
    members: Sequence[tuple[Tower, MomentExchange]]


Gather: TypeAlias = Callable[[str, Sequence[Tensor]], Sequence[Sequence[Tensor]]]
"""Returns what each worker has of some tensors, by a name and what this one has."""


def write_exchanges(
    writer: StepWriter,
    meetings: Mapping[str, JoinedExchange],
    sent_by: Callable[[Tower, str], Tensor],
    gather: Gather | None = None,
) -> None:
    """Write the ops of every exchange; `gather` is there if other workers have towers in their graphs."""
    for name, meeting in meetings.items():
        members, scope, placed = meeting.members, f"{SCOPE}/{name}", meeting.placed
        moments: list[Sequence[Tensor]] = [
            [sent_by(tower, own) for own in each.sent] for tower, each in members
        ]
        if gather is not None:
            own = Spot(writer, f"{scope}/moments/own", placed)
            # the batches of this worker may have no elements, as long as others have some
            here = write_traced(own, whole_moments, moments, divide=tf.math.divide_no_nan)
            moments = [*gather(f"{scope}/moments", here)]
        write_traced(Spot(writer, f"{scope}/moments", placed), whole_moments, moments)
        for at in range(len(members[0][1].gradients_sent)):
            back: list[Sequence[Tensor]] = [
                [sent_by(tower, own) for own in each.gradients_sent[at]] for tower, each in members
            ]
            kind = f"{scope}/{gradients_kind(at)}"
            if gather is not None:
                here = write_traced(Spot(writer, f"{kind}/own", placed), summed_gradients, back)
                back = [*gather(kind, here)]
            write_traced(Spot(writer, kind, placed), summed_gradients, back)
