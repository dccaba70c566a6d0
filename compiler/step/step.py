"""A whole step: its ops by name, the variables that they work on, and the ops with which it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from attrs import field, frozen

from compiler.plan import Plan, VariablePlacement
from compiler.shards import Shard
from compiler.step.edges import Edges, Numbers
from compiler.step.record import Crossing, Op
from compiler.topology import Device, Host


@frozen
class Slot:
    """A variable that an optimizer keeps for one of the model, or the moving average of that one.

    Attributes:
        name: Its name.
        handle: The name of the op that is its handle.
        bytes: Its size.
        device: Its device.
        shard: The piece or part of the variable of the model whose shape it has; None if it is whole, or has
            another shape.
    """

    name: str
    handle: str
    bytes: int
    device: Device
    shard: Shard | None


@frozen
class Variable:
    """A variable of the model: a weight, or a piece of one.

    Attributes:
        placement: The variable, and its places.
        copies: The names of the ops that are the handles of its copies; it has one copy or, if it is
            replicated, one for each clone.
        slots: Its slots and its moving average, of each copy and each part.
        made_whole: Whether the first value of a piece is cut from that of the whole weight.
    """

    placement: VariablePlacement
    copies: tuple[str, ...]
    slots: tuple[Slot, ...]
    made_whole: bool


@frozen
class Ends:
    """The names of the ops for which all others of a step are run.

    Attributes:
        all: Those of a whole step.
        loops: Those of each clone, if each updates by itself.
        of_worker: Those of what every worker runs, if each has a graph of its own, else none.
        of_chief: Those of what the chief runs when the others have contributed, if it applies the update.
        shared: Those of what every worker runs after that, if all give each other what they have updated.
        only_chief: The names of all ops that only the chief has. The step of another worker is without them.
    """

    all: tuple[str, ...]
    loops: tuple[tuple[str, ...], ...] = ()
    of_worker: tuple[str, ...] = ()
    of_chief: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    only_chief: frozenset[str] = field(default=frozenset(), repr=False)


@frozen
class Step:
    """A step, with all that its graph has besides.

    Attributes:
        plan: The plan that it follows. If each worker has a graph of its own, the step is that of one worker.
        ops: All ops by name, in the order of the graph.
        variables: The variables of the model by name.
        ends: The ops for which all others of the step are run.
        homes: The tasks on whose devices is what workers share between steps.
        crossings: What workers send each other, if each has all weights.
        abroad: The names of the ops on the devices of other workers: what puts something into their queues,
            and what reads and writes what they keep for checkpoints.
    """

    plan: Plan = field(repr=False)
    ops: Mapping[str, Op] = field(repr=False)
    variables: Mapping[str, Variable] = field(repr=False)
    ends: Ends
    homes: frozenset[Host]
    crossings: tuple[Crossing, ...] = field(default=(), kw_only=True, repr=False)
    abroad: frozenset[str] = field(default=frozenset(), kw_only=True, repr=False)
    _everyone: Callable[[], tuple[Step, ...]] = field(default=tuple, kw_only=True, repr=False)
    _edges: Edges | None = field(default=None, kw_only=True, repr=False)

    @cached_property
    def edges(self) -> Edges:
        """What takes what, as numbers."""
        return Edges([*self.ops.values()]) if self._edges is None else self._edges

    @cached_property
    def runs(self) -> Numbers:
        """Whether the step runs each op of its edges."""
        return self.edges.needed_for(self.ends.all)

    @property
    def runs_by_all(self) -> Numbers:
        """Whether every worker runs each; those of `runs`, if no worker has a graph of its own."""
        if not self.ends.of_worker:
            return self.runs
        return self.edges.needed_for((*self.ends.of_worker, *self.ends.shared), self.ends.only_chief)

    @property
    def run(self) -> list[Op]:
        """The ops that the step runs, in the order of the graph."""
        return self.edges.chosen(self.runs)

    @cached_property
    def everyone(self) -> tuple[Step, ...]:
        """The steps of all workers, if they send each other something in a step."""
        return self._everyone()
