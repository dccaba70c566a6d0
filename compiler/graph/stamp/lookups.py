"""How a template uses its weights: by rows of a table or whole. It also finds ops that only CPUs have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf
from attrs import define, frozen

from compiler.figures import gathered
from compiler.graph.adapters.tensorflow_private import op_definition
from compiler.graph.tower.template import Template, base_of

GATHER = "GatherV2"
STRINGS, PYTHON = "strings", "python"
"""What ops are for which GPUs have no kernels: on strings, and calls of functions of Python."""

CALLS_OF_PYTHON = frozenset({"PyFunc", "PyFuncStateless"})
"""The ops of `tf.numpy_function`. That of `tf.py_function`, `EagerPyFunc`, has a kernel for GPUs."""
_WHOLE = frozenset({"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))})


@frozen
class Lookup:
    """A gather of rows of a weight, as names of nodes."""

    weight: str
    gather: str
    indices: str
    cast: str | None = None  # the conversion of the weight before the gather, or None if there is none


@frozen
class Usage:
    """How a template uses its weights."""

    lookups: Mapping[str, Lookup]  # the gathers of rows by the name of the gather
    of_examples: frozenset[str]  # the gathers whose numbers of rows depend on no weight
    # For each node that runs on the device of a weight, that weight: gathers, and nodes that make the rows
    # smaller before they are sent.
    at_table: Mapping[str, str]
    whole: frozenset[str]  # the weights whose whole value is needed
    gone: frozenset[str]  # the nodes that nothing needs if the gathers run on the devices of their tables
    # The nodes for which GPUs have no kernels, with what they are. Also those that make whole numbers only of
    # what these have made, as the look-up of a word in a vocabulary does.
    on_cpu: Mapping[str, str]

    def by_weight(self, weight: str) -> tuple[str, ...]:
        """Return the gathers of rows of a weight."""
        return tuple(each.gather for each in self.lookups.values() if each.weight == weight)


def usage_of(template: Template) -> Usage:
    """Return how the nodes of a template use its weights; they are read once for each template."""
    known = _known.get(template)
    if known is None:
        known = _known[template] = _Reader(template).read()
    return known


_known: WeakKeyDictionary[Template, Usage] = WeakKeyDictionary()


@define
class _Reader:
    template: Template

    @property
    def nodes(self) -> Mapping[str, Any]:
        return self.template.fragment.node

    @cached_property
    def users(self) -> Mapping[str, Sequence[str]]:
        """The nodes that use outputs of each node, or wait for it."""
        return gathered((base_of(each), name) for name, node in self.nodes.items() for each in node.input)

    def read(self) -> Usage:
        lookups = {each.gather: each for weight in self.template.weights for each in self._lookups(weight)}
        results = set(map(base_of, self.template.used))
        gone = {name for each in lookups.values() for name in self._unneeded(each, lookups, results)}
        whole = {
            weight
            for weight, port in self.template.weights.items()
            if port in results
            or any(user not in lookups and user not in gone for user in self.users.get(port, ()))
        }
        on_cpu = self._on_cpu()
        at_table = {name: each.weight for each in lookups.values() for name in self._beside(each, results)}
        of_examples = frozenset(self._of_examples(lookups))
        return Usage(lookups, of_examples, at_table, frozenset(whole), frozenset(gone), on_cpu)

    def _of_examples(self, lookups: Mapping[str, Lookup]) -> Iterator[str]:
        """Yield the gathers whose numbers of rows depend on no weight."""
        weighted = {*self.template.weights.values(), *self.template.received}
        for name, node in self.nodes.items():  # in topological order
            if any(base_of(each) in weighted for each in node.input):
                weighted.add(name)
        for name in self.nodes:
            if name in lookups and base_of(lookups[name].indices) not in weighted:
                yield name

    def _on_cpu(self) -> dict[str, str]:
        """Return the nodes for CPUs alone, and those after them up to the first that makes no whole numbers.

        Numbers that are computed from strings by many small ops, as in a look-up, are sent to a GPU once.
        """
        found, made = dict[str, str](), self.template.fragment.made
        for name, node in self.nodes.items():  # in topological order
            made_of = [base_of(each) for each in node.input if not each.startswith("^")]
            made_of = [each for each in made_of if self.nodes[each].op != "Const"]
            whole = _WHOLE.issuperset(dtype for dtype, _ in made[name])
            if node.op in CALLS_OF_PYTHON:
                found[name] = PYTHON
            elif handles_strings(node):
                found[name] = STRINGS
            elif made_of and whole and found.keys() >= set(made_of):
                found[name] = found[made_of[0]]
        return found

    def _beside(self, lookup: Lookup, results: set[str]) -> Iterator[str]:
        """Yield the gather, and the op that alone uses its rows if that op makes smaller numbers of them."""
        yield lookup.gather
        users = self.users.get(lookup.gather, [])
        if len(users) == 1 and lookup.gather not in results and self.nodes[users[0]].op == "Cast":
            made, taken = (
                tf.as_dtype(self.nodes[users[0]].attr[each].type).size for each in ("DstT", "SrcT")
            )
            if made < taken:
                yield users[0]

    def _lookups(self, weight: str) -> Iterator[Lookup]:
        port = self.template.weights[weight]
        for user in self.users.get(port, ()):
            if self._gathers(user, port):
                yield Lookup(weight, user, self.nodes[user].input[1])
            elif self.nodes[user].op == "Cast":
                for reader in self.users.get(user, ()):
                    if self._gathers(reader, user):
                        yield Lookup(weight, reader, self.nodes[reader].input[1], cast=user)

    def _gathers(self, name: str, table: str) -> bool:
        """Whether a node gathers rows, along the first axis, of the output of the node `table`."""
        node = self.nodes[name]
        if node.op != GATHER or base_of(node.input[0]) != table or node.attr["batch_dims"].i:
            return False
        axis = self.nodes[base_of(node.input[2])]
        return axis.op == "Const" and int(tf.make_ndarray(axis.attr["value"].tensor)) == 0

    def _unneeded(self, lookup: Lookup, lookups: Mapping[str, Lookup], results: set[str]) -> Iterator[str]:
        """Yield the conversion of a whole table and the constant axis if only look-ups use them."""
        axis = base_of(self.nodes[lookup.gather].input[2])
        for name in (lookup.cast, axis):
            if name is not None and name not in results and all(user in lookups for user in self.users[name]):
                yield name


def handles_strings(node: Any) -> bool:
    """Whether a node has strings as inputs or outputs."""
    if declares_strings(node.op):
        return True
    return any(
        value.type == tf.string.as_datatype_enum or tf.string.as_datatype_enum in value.list.type
        for value in node.attr.values()
    )


@cache
def declares_strings(op: str) -> bool:
    """Whether every op of a type has strings as inputs or outputs."""
    definition = op_definition(op)
    if definition is None:
        return False
    return any(
        each.type == tf.string.as_datatype_enum for each in (*definition.input_arg, *definition.output_arg)
    )


def runs_functions(node: Any) -> bool:
    """Whether a node is a loop, a branch or a call, which passes its inputs to the ops of a function."""
    return any(value.HasField("func") for value in node.attr.values())
