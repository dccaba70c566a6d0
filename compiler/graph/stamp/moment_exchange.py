"""The sums between towers whose layers normalize by the batches of all clones; each is on one device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import frozen

from compiler.graph.ledger import Entry, Ledger
from compiler.graph.tower.network.batch_norm import gradients_kind, summed_gradients, whole_moments
from compiler.graph.tower.template import MomentExchange, Template
from compiler.plan import Tower
from compiler.reasons import Placed

SCOPE = "synchronized"
MOMENTS = ("mean", "variance", "count")
GRADIENTS = ("mean", "variance")


def received_names(template: Template) -> Iterator[tuple[str, str, str]]:
    """Yield each port through which a tower receives a tensor, its name in the graph, and its exchange."""
    for exchange in template.exchanges:
        back = [(gradients_kind(at), GRADIENTS, each) for at, each in enumerate(exchange.gradients_received)]
        for kind, parts, ports in (("moments", MOMENTS, exchange.received), *back):
            for part, port in zip(parts, ports, strict=False):
                if port is not None:
                    yield port, f"{SCOPE}/{exchange.name}/{kind}/{part}", exchange.name


@frozen
class JoinedExchange:
    """An exchange between all towers.

    Attributes:
        placed: The place of its sums.
        members: The towers, each with its part of the exchange.
    """

    placed: Placed
    members: Sequence[tuple[Tower, MomentExchange]]


def write_exchanges(target: Any, meetings: Mapping[str, JoinedExchange], ledger: Ledger) -> None:
    """Write the ops of every exchange.

    Args:
        target: The GraphDef, which holds the towers.
        meetings: The exchanges by name.
        ledger: The ledger of the graph.
    """
    for name, meeting in meetings.items():
        sent = [[tower.op_name(each) for each in exchange.sent] for tower, exchange in meeting.members]
        _write(target, meeting, ledger, f"{SCOPE}/{name}/moments", whole_moments, sent)
        for at in range(len(meeting.members[0][1].gradients_sent)):
            back = [
                [tower.op_name(each) for each in exchange.gradients_sent[at]]
                for tower, exchange in meeting.members
            ]
            _write(target, meeting, ledger, f"{SCOPE}/{name}/{gradients_kind(at)}", summed_gradients, back)


def _write(
    target: Any,
    meeting: JoinedExchange,
    ledger: Ledger,
    scope: str,
    combine: Callable[[Sequence[Sequence[tf.Tensor]]], Sequence[tf.Tensor]],
    sent: Sequence[Sequence[str]],
) -> None:
    """Write the ops by which `combine` computes its results from the tensors `sent` by each clone."""
    exchange = meeting.members[0][1]
    with tf.Graph().as_default() as graph:
        names: dict[str, str] = {}
        twins = []
        for tensors in sent:
            twins.append([_twin(exchange, part) for part in range(len(tensors))])
            names |= {twin.op.name: name for twin, name in zip(twins[-1], tensors, strict=True)}
        combine(twins)
    for node in graph.as_graph_def().node:
        if node.op != "Placeholder":
            made = target.node.add()
            made.CopyFrom(node)
            made.name = f"{scope}/{node.name}"
            made.input[:] = [_input(each, names, scope) for each in node.input]
            made.device = ledger.plan.tensorflow_device(meeting.placed.device)
            ledger.enter(made.name, Entry(meeting.placed, "aggregate"))


def _twin(exchange: MomentExchange, part: int) -> tf.Tensor:
    """Return a placeholder for a tensor that a tower sends: mean, variance, or number of elements."""
    count = part == MOMENTS.index("count")
    return tf.compat.v1.placeholder(exchange.dtype, () if count else exchange.shape)


def _input(name: str, names: Mapping[str, str], scope: str) -> str:
    return names.get(name) or f"{scope}/{name}"
