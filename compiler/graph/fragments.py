"""Fragments of a step: ops that TensorFlow's functions write in a graph of their own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf
from attrs import evolve, fields, frozen, has

from compiler.graph.adapters.tensorflow_private import python_functions
from compiler.step.record import Fragment, Made, Rows, Shape, Tensor, Use
from compiler.step.writer import Spot

_GIVEN, _BEFORE = "given.", "before."
"""What the names of ops begin with, or are, that stand for what is outside of a fragment."""


def fragment_of(
    graph: tf.Graph,
    result: tf.Tensor | tf.Operation | None = None,
    *,
    ops: Sequence[tf.Operation] | None = None,
    shapes: bool = False,
) -> Fragment:
    """Return the ops of a graph as a fragment, without the placeholders for what is given to it.

    Args:
        graph: The graph.
        result: What the fragment is for, if that is one tensor or one op.
        ops: Those of its ops that belong to the fragment; by default what the result needs.
        shapes: Whether TensorFlow does not find out all shapes from what the ops take.
    """
    whole = graph.as_graph_def(add_shapes=shapes)
    if ops is None:
        needed = ancestors([result.op if isinstance(result, tf.Tensor) else result])
    else:
        needed = {each.name for each in ops}
    nodes = tf.compat.v1.GraphDef(library=whole.library)
    nodes.node.extend(
        node
        for node in whole.node
        if node.name in needed and node.op != "Placeholder" and not node.name.startswith((_GIVEN, _BEFORE))
    )
    made = {node.name: made_by(graph.get_operation_by_name(node.name)) for node in nodes.node}
    first = [node.name for node in nodes.node if f"^{_BEFORE}" in node.input]
    for own in nodes.node if first else ():
        if f"^{_BEFORE}" in own.input:
            own.input.remove(f"^{_BEFORE}")
    return Fragment(nodes, None if result is None else str(result.name), made, first, python_functions(graph))


def made_by(op: tf.Operation) -> Made:
    """Return the type and shape of each result of an op."""
    return [
        (each.dtype.name, None if each.shape.rank is None else tuple(each.shape.as_list()))
        for each in op.outputs
    ]


def ancestors(ops: Iterable[tf.Operation]) -> set[str]:
    """Return the names of ops and of everything that they depend on."""
    pending, seen = list[Any](ops), set[str]()
    while pending:
        each = pending.pop()
        if each.name not in seen:
            seen.add(each.name)
            pending += [*(tensor.op for tensor in each.inputs), *each.control_inputs]
    return seen


# --- functions of TensorFlow ------------------------------------------------------------------------------


class MergedRows(tf.IndexedSlices):  # type: ignore[misc] # TensorFlow has no types
    """Rows with distinct numbers.

    Attributes:
        merged: The rows of which they are the sums, or None if that is not known.
    """

    def __init__(self, values: tf.Tensor, indices: tf.Tensor, merged: tf.IndexedSlices | None) -> None:
        super().__init__(values, indices)
        self.merged = merged


@frozen
class _Trace:
    """What a function of TensorFlow has written.

    Attributes:
        fragment: The ops.
        results: What the function has returned: records of tensors and rows, and names of ops.
    """

    fragment: Fragment
    results: Any


_known: WeakKeyDictionary[Any, dict[Hashable, _Trace]] = WeakKeyDictionary()
"""Traces by what they belong to, and by what else they depend on."""


def write_traced(
    at: Spot,
    function: Callable[..., Any],
    *given: Any,
    owner: Any = None,
    kind: Hashable = None,
    ended_after: Sequence[str] = (),
    needed_only: bool = False,
    **fixed: Any,
) -> Any:
    """Write the ops that a function of TensorFlow makes.

    It is called once for all values of the same types and shapes, in a graph of its own.

    Args:
        at: Where they are written.
        function: The function of tensors, handles and rows. It returns tensors, rows, ops or structures of
            these.
        given: What it is called with: records of tensors and rows, or structures of these.
        owner: What its traces are kept with; by default the function itself.
        kind: What its ops depend on besides.
        ended_after: The names of the ops for which the op that it returns waits, or that of its tensor.
        needed_only: Whether ops are left out that the one tensor that it returns does not need.
        fixed: Its other arguments, by their names.

    Returns:
        What the function returns, with records of tensors and rows, and names of ops.
    """
    traces = _known.setdefault(function if owner is None else owner, {})
    tensors = list[Tensor]()
    key = (getattr(function, "__func__", None), kind, _kind(given, tensors), tuple(fixed.items()))
    if key not in traces:
        traces[key] = _traced(function, given, fixed, needed_only=needed_only)
    trace = traces[key]
    named = {f"{_GIVEN}{number}": each for number, each in enumerate(tensors)}
    use = at.writer.use(trace.fragment, at.scope, named, at.placed, ended_after)
    return map_tensors(trace.results, partial(_in_use, use=use), (Tensor, str))


def _traced(
    function: Callable[..., Any], given: Any, fixed: Mapping[str, Any], *, needed_only: bool
) -> _Trace:
    with tf.Graph().as_default() as graph:
        numbers = count()
        stand_ins = map_tensors(
            given, lambda each: _stand_in(each, f"{_GIVEN}{next(numbers)}"), rows=MergedRows
        )
        with tf.control_dependencies([tf.no_op(name=_BEFORE)]):
            results = function(*stand_ins, **fixed)
        if results is None:
            return _Trace(Fragment(tf.compat.v1.GraphDef()), None)
        single = isinstance(results, (tf.Tensor, tf.Operation))
        ops = None if needed_only else graph.get_operations()
        fragment = fragment_of(graph, results if single else None, ops=ops, shapes=True)
        return _Trace(fragment, recorded(results))


def _stand_in(given: Tensor, name: str) -> tf.Tensor:
    """Return a tensor of the graph of a trace that stands for one of the step."""
    if given.holds is not None:
        dtype, shape = given.holds
        return tf.raw_ops.VarHandleOp(dtype=dtype, shape=variable_shape(shape), shared_name="", name=name)
    return tf.compat.v1.placeholder(given.dtype, given.shape, name=name)


def variable_shape(shape: Shape) -> tf.TensorShape:
    """Return a shape as variables have it; if an axis has no fixed size, TensorFlow is told nothing of it."""
    return tf.TensorShape(None if None in shape else shape)


def _kind(given: Any, tensors: list[Tensor]) -> Hashable:
    """Return what a trace depends on of what is given, and note the tensors in it."""
    if isinstance(given, Tensor):
        tensors.append(given)
        return given.dtype, given.shape, given.holds
    if isinstance(given, Mapping):
        return tuple([(name, _kind(each, tensors)) for name, each in given.items()])
    if isinstance(given, (list, tuple)):
        return tuple([_kind(each, tensors) for each in given])
    parts = _parts_of(given.__class__)
    return (
        given if parts is None else (type(given), *[_kind(getattr(given, each), tensors) for each in parts])
    )


@cache
def _parts_of(kind: type) -> tuple[str, ...] | None:
    """Return the names of the parts of a record; None for the class of something else."""
    return tuple(each.name for each in fields(kind)) if has(kind) else None


def map_tensors(
    given: Any, change: Callable[[Any], Any], kinds: Any = Tensor, rows: Callable[..., Any] = Rows
) -> Any:
    """Return a structure with something else in place of each value of some kinds.

    Args:
        given: Records, lists, tuples and dictionaries with such values.
        change: Returns what is there in place of a value.
        kinds: The classes of these values.
        rows: Makes rows of their parts.
    """
    if isinstance(given, kinds):
        return change(given)
    if isinstance(given, Mapping):
        return {name: map_tensors(each, change, kinds, rows) for name, each in given.items()}
    if isinstance(given, (list, tuple)):
        return type(given)(map_tensors(each, change, kinds, rows) for each in given)
    names = _parts_of(given.__class__)
    if names is None:
        return given
    parts = [map_tensors(getattr(given, each), change, kinds, rows) for each in names]
    return (rows if isinstance(given, Rows) else type(given))(*parts)


def recorded(result: Any) -> Any:
    """Return what a function has returned as records, and ops as their names."""
    return map_tensors(result, _record, (tf.Tensor, tf.IndexedSlices, tf.Operation))


def _record(made: Any) -> Tensor | Rows | str:
    if isinstance(made, tf.Operation):
        return str(made.name)
    if isinstance(made, tf.IndexedSlices):
        return Rows(recorded(made.values), recorded(made.indices))
    dtype, shape = made_by(made.op)[made.value_index]
    value = tf.get_static_value(made) if shape == () else None
    return Tensor(made.op.name, dtype, shape, made.value_index, None if value is None else value.item())


def _in_use(made: Tensor | str, use: Use) -> Tensor | str:
    """Return what a tensor or an op of a trace is where the trace is used."""
    if isinstance(made, str):
        return use.names[made]
    found = use.tensor(made.name.removesuffix(":0"))
    return found if made.value is None else evolve(found, value=made.value)
