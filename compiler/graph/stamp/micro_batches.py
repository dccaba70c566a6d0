"""Accumulation of gradients: a loop in which the ops of a tower run once for each micro-batch of a step.

The loop is made of TensorFlow's control flow ops, which are written around the tower's nodes, so that every
op keeps its name and its device. Variables are read once, before the loop. Gradients, losses and metric
states are summed over the iterations. Each iteration starts from the batch-normalization statistics of the
one before it. Iterations do not overlap, so a step needs the memory of one micro-batch and of one gradient
for each variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.ledger import Entry, Ledger
from compiler.graph.node_types import input_types
from compiler.graph.tower.template import Template
from compiler.plan import Tower
from compiler.reasons import Placed

SCOPE = "accumulate"
INT32 = tf.int32.as_datatype_enum
_NUMBERS = frozenset({"N", "parallel_iterations"})  # attributes that are no types


@frozen
class AccumulatedResults:
    """The results of a tower's loop.

    Attributes:
        results: For each tensor of the template, the op that holds its result over all micro-batches.
        ended: The op after which nothing of the loop runs any more.
    """

    results: Mapping[str, str]
    ended: str


@frozen
class _Carried:
    """A loop variable: the names of its value in an iteration (`now`) and after the loop (`after`)."""

    now: str
    after: str
    scope: str
    dtype: int
    entry: Entry


@define
class MicroBatchWriter:
    """Writes a loop over micro-batches around the nodes of a tower.

    Attributes:
        template: The template of the tower.
        tower: The tower.
        nodes: The nodes of the tower as they are stamped.
        names: The names of these nodes by those in the template.
        sliced: The tensors from outside of which each micro-batch has its own slice along the first axis.
        count: The number of micro-batches.
        ledger: The ledger of the graph.
        target: The GraphDef into which the loop is written.
    """

    template: Template
    tower: Tower
    nodes: Sequence[Any] = field(repr=False)
    names: Mapping[str, str] = field(repr=False)
    sliced: frozenset[str]
    count: int
    ledger: Ledger = field(repr=False)
    target: Any = field(repr=False)
    _body: frozenset[str] = frozenset()
    _entered: dict[tuple[str, str], str] = field(factory=dict, repr=False)
    _parts: dict[str, str] = field(factory=dict, repr=False)
    _statistics: dict[str, str] = field(
        factory=dict, repr=False
    )  # read of a statistic -> its value in this iteration
    _iteration: str = ""  # the number of the iteration
    _goes_on: str = ""  # whether there is another iteration

    def write(self) -> AccumulatedResults:
        """Write the loop, and return its results."""
        reads = [each for each in self.nodes if self.ledger.entries[each.name].role == "read"]
        body = [each for each in self.nodes if self.ledger.entries[each.name].role != "read"]
        self._body = frozenset(each.name for each in body)
        self.target.node.extend(reads)
        after = [self._count_micro_batches()]
        statistics = self._carry_statistics({each.name for each in reads})
        for node in body:
            self._write_inside(node)
        results = {name: self._next(each, self._now(name, each.entry)) for name, each in statistics.items()}
        for name, write in self._wanted():
            if name not in results:
                results[name] = write(name)
        after += results.values()
        ended = self._node(self._name("ended"), "NoOp", [f"^{each}" for each in after], self._own)
        return AccumulatedResults(results, ended)

    # --- the loop itself ----------------------------------------------------------------------------------

    def _count_micro_batches(self) -> str:
        """Write the count of the micro-batches and the condition; return the count after the loop."""
        scope, own = self._name("round"), self._own
        zero = self._constant(f"{scope}/zero", 0, tf.int32, own)
        limit = self._enter(self._constant(f"{scope}/count", self.count, tf.int32, own), INT32, own)
        merged = self._merge(scope, zero, INT32, own)
        less = self._node(f"{scope}/less", "Less", [merged, limit], own, T=INT32)
        self._goes_on = self._node(f"{scope}/goes_on", "LoopCond", [less], own)
        counted = self._switch(scope, merged, INT32, own)
        self._iteration = counted.now
        one = self._enter(self._constant(f"{scope}/one", 1, tf.int32, own), INT32, own)
        return self._next(counted, self._node(f"{scope}/add", "AddV2", [counted.now, one], own, T=INT32))

    def _carry(self, name: str, initial: str, dtype: int, entry: Entry) -> _Carried:
        scope = self._name(name.replace(":", "_"))
        return self._switch(scope, self._merge(scope, initial, dtype, entry), dtype, entry)

    def _merge(self, scope: str, initial: str, dtype: int, entry: Entry) -> str:
        entered = self._enter_node(f"{scope}/enter", initial, dtype, entry, constant=False)
        return self._node(f"{scope}/merge", "Merge", [entered, f"{scope}/next"], entry, T=dtype, N=2)

    def _switch(self, scope: str, merged: str, dtype: int, entry: Entry) -> _Carried:
        switch = self._node(f"{scope}/switch", "Switch", [merged, self._goes_on], entry, T=dtype)
        now = self._node(f"{scope}/now", "Identity", [f"{switch}:1"], entry, T=dtype)
        after = self._node(f"{scope}/after", "Exit", [switch], entry, T=dtype)
        return _Carried(now, after, scope, dtype, entry)

    def _next(self, carried: _Carried, value: str) -> str:
        """Pass `value` on to the next iteration; return the name of its last value, after the loop."""
        self._node(f"{carried.scope}/next", "NextIteration", [value], carried.entry, T=carried.dtype)
        return carried.after

    # --- what goes in -------------------------------------------------------------------------------------

    def _write_inside(self, node: Any) -> None:
        """Write a node of the tower, whose inputs from outside enter the loop."""
        made = self.target.node.add()
        made.CopyFrom(node)
        entry, types = self.ledger.entries[node.name], input_types(node)
        data, controls = node.input[: len(types)], node.input[len(types) :]
        made.input[:] = [self._inside(name, dtype, entry) for name, dtype in zip(data, types, strict=True)]
        made.input.extend(
            each for each in controls if each[1:] in self._body
        )  # ops outside have run before the loop
        if not made.input:
            made.input.append(f"^{self._iteration}")  # without an input it would not belong to the loop

    def _inside(self, name: str, dtype: int, entry: Entry) -> str:
        """Return the name in the loop of the tensor `name` as an input of the op of `entry`."""
        if name.partition(":")[0] in self._body:
            return name
        if name in self._statistics:
            return self._statistics[name]
        return self._part(name, dtype) if name in self.sliced else self._enter(name, dtype, entry)

    def _part(self, name: str, dtype: int) -> str:
        """Return the slice of a tensor from outside for this iteration, cut on the tensor's device."""
        if name not in self._parts:
            entry, scope = self.ledger.entries[name.partition(":")[0]], self._name(f"part_{len(self._parts)}")
            axis = self._constant(f"{scope}/axis", 0, tf.int32, entry)
            inputs = [self._enter(name, dtype, entry), self._iteration, self._enter(axis, INT32, entry)]
            types = {"Tparams": dtype, "Tindices": INT32, "Taxis": INT32}
            self._parts[name] = self._node(f"{scope}/cut", "GatherV2", inputs, entry, **types)
        return self._parts[name]

    def _enter(self, name: str, dtype: int, entry: Entry) -> str:
        """Return a tensor from outside that is the same in every micro-batch, on the device of `entry`."""
        key = (name, entry.device.ref)
        if key not in self._entered:
            scope = self._name(f"enter_{len(self._entered)}")
            self._entered[key] = self._enter_node(scope, name, dtype, entry, constant=True)
        return self._entered[key]

    def _enter_node(self, scope: str, name: str, dtype: int, entry: Entry, *, constant: bool) -> str:
        made = self._node(scope, "Enter", [name], entry, T=dtype, parallel_iterations=1)
        attributes = self.target.node[-1].attr
        attributes["frame_name"].s = self.tower.op_name(SCOPE).encode()
        attributes["is_constant"].b = constant
        return made

    # --- what comes out -----------------------------------------------------------------------------------

    def _carry_statistics(self, reads: set[str]) -> dict[str, _Carried]:
        """Pass statistics from iteration to iteration.

        Returns:
            The last value of each, by the template's name of the new value.
        """
        found: dict[str, _Carried] = {}
        for weight, update in self.template.state_updates.items():
            read, entry, dtype = (
                self.tower.op_name(f"{weight}/read"),
                self._entry_of(update),
                self._type(update),
            )
            known = read in reads
            initial = read if known else self._constant(self._name(f"state/{weight}/zero"), 0, dtype, entry)
            carried = self._carry(f"state/{weight}", initial, dtype.as_datatype_enum, entry)
            if known:
                self._statistics[read] = carried.now
            found[update] = carried
        return found

    def _wanted(self) -> Iterator[tuple[str, Callable[[str], str]]]:
        """Yield the tensors of the template that are used after the loop, with what writes each."""
        template = self.template
        for part in template.losses:
            for tensor in part.tensors:
                yield tensor, self._mean
        for states in template.metric_states.values():
            for state in states:
                yield state, self._sum
        for gradient in template.gradients:
            yield gradient.values, self._sum if gradient.indices is None else self._rows
            if gradient.indices is not None:
                yield gradient.indices, self._rows
        for each in dict.fromkeys(template.outputs):
            yield each, self._last

    def _sum(self, name: str) -> str:
        """Write the sum of a tensor over all micro-batches."""
        entry, dtype = self._entry_of(name), self._type(name)
        zeros = self._zeros(name, self.template.results[name].shape or (), dtype, entry)
        carried = self._carry(name, zeros, dtype.as_datatype_enum, entry)
        added = [carried.now, self._now(name, entry)]
        return self._next(carried, self._node(f"{carried.scope}/add", "AddV2", added, entry, T=carried.dtype))

    def _mean(self, name: str) -> str:
        """Write the mean of a number over all micro-batches."""
        total, entry, dtype = self._sum(name), self._entry_of(name), self._type(name)
        part = self._constant(f"{total}/part", 1 / self.count, dtype, entry)
        return self._node(f"{total}/mean", "Mul", [total, part], entry, T=dtype.as_datatype_enum)

    def _rows(self, name: str) -> str:
        """Write the rows of all micro-batches, concatenated."""
        entry, dtype = self._entry_of(name), self._type(name)
        none = self._zeros(name, (0, *(self.template.results[name].shape or (0,))[1:]), dtype, entry)
        carried = self._carry(name, none, dtype.as_datatype_enum, entry)
        axis = self._enter(self._constant(f"{carried.scope}/axis", 0, tf.int32, entry), INT32, entry)
        rows, types = [carried.now, self._now(name, entry), axis], {"T": carried.dtype, "Tidx": INT32}
        return self._next(carried, self._node(f"{carried.scope}/join", "ConcatV2", rows, entry, N=2, **types))

    def _last(self, name: str) -> str:
        """Write the value of a tensor in the last iteration."""
        entry, dtype = self._entry_of(name), self._type(name)
        scope = "output" if name == self.template.outputs[0] else f"output/{name.replace(':', '_')}"
        nothing = self._constant(self._name(f"{scope}/none"), "" if dtype == tf.string else 0, dtype, entry)
        carried = self._carry(scope, nothing, dtype.as_datatype_enum, entry)
        return self._next(carried, self._now(name, entry))

    def _now(self, name: str, entry: Entry) -> str:
        """Return a tensor of the template as it is in this iteration."""
        base, colon, index = name.partition(":")
        return self._inside(f"{self.names[base]}{colon}{index}", self._type(name).as_datatype_enum, entry)

    # --- nodes --------------------------------------------------------------------------------------------

    @property
    def _own(self) -> Entry:
        return Entry(Placed(self.tower.device, self.tower.reason), "forward", self.tower.index)

    def _entry_of(self, name: str) -> Entry:
        """Return the place where a tensor of the template is made; for an input, the place of that input."""
        return self.ledger.entries[self.names[name.partition(":")[0]].partition(":")[0]]

    def _type(self, name: str) -> tf.DType:
        return tf.as_dtype(self.template.results[name].dtype)

    def _name(self, inner: str) -> str:
        return self.tower.op_name(f"{SCOPE}/{inner}")

    def _zeros(self, name: str, shape: Sequence[int | None], dtype: tf.DType, entry: Entry) -> str:
        scope = self._name(f"{name.replace(':', '_')}/start")
        known = [each or 0 for each in shape]
        filled = [
            self._constant(f"{scope}/shape", known, tf.int32, entry),
            self._constant(f"{scope}/zero", 0, dtype, entry),
        ]
        types = {"T": dtype.as_datatype_enum, "index_type": INT32}
        return self._node(f"{scope}/zeros", "Fill", filled, entry, **types)

    def _constant(self, name: str, value: Any, dtype: tf.DType, entry: Entry) -> str:
        """Write a constant outside the loop."""
        self._node(name, "Const", [], entry, dtype=dtype.as_datatype_enum)
        empty = [0] if value == [] else None
        self.target.node[-1].attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, empty))
        return name

    def _node(self, name: str, op: str, inputs: Sequence[str], entry: Entry, **attributes: int) -> str:
        """Write a node on the device of `entry`; its attributes are types, apart from a few numbers."""
        node = self.target.node.add(name=name, op=op)
        node.input.extend(inputs)
        for key, value in attributes.items():
            if key in _NUMBERS:
                node.attr[key].i = value
            else:
                node.attr[key].type = value
        node.device = self.ledger.plan.tensorflow_device(entry.device)
        self.ledger.enter(name, entry)
        return name
