"""The text of a spec that says what a Keras model is, and how it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from attrs import define, field

from compiler.graph.adapters.keras_private import functional_of, layers_within, names_of_outputs
from compiler.graph.tower.network.precision import keras_settings
from compiler.model.elaborate import elaborate
from dsl import ir, schema
from dsl.source import Source
from grammar import unparse
from grammar.format import WIDTH, format_text
from grammar.unparse import block, value
from tfdeploy.onramp.folding import fold
from tfdeploy.onramp.graph import RESERVED, At, Body, Node, Reader, free_name, require_plain
from tfdeploy.onramp.objects import UnwritableError, UnwritableModelError, is_automatic
from tfdeploy.onramp.training import Training, training_of
from tfdeploy.runtime.verify.examples import count_classes, longest

_METHODS = ("call", "train_step", "test_step", "predict_step", "compute_loss", "compute_metrics")

EXAMPLES = 256


@define
class Draft:
    """A spec in the making."""

    model: ir.Model
    layers: list[ir.LayerBlock]
    body: Body  # the body of the model, whose values its nodes have
    training: Training  # what `compile` was given
    precision: str  # the precision, as `update` has it
    examples: dict[str, ir.Call] = field(factory=dict)  # what makes up examples of each input and label
    inputs: dict[str, ir.Input] = field(factory=dict)
    one_number: bool = False  # whether the model gives one number for each example
    # The texts of the vocabularies that the spec reads from files beside it, by their names.
    files: Mapping[str, str] = field(factory=dict)


def draft(model: Any, config: Mapping[str, Any], called: str = "model") -> Draft:
    """Return what a spec says of a functional or sequential model.

    Args:
        model: The Keras model, which has been built.
        config: What `compile` was given, as Keras serializes it; empty if the model is not compiled.
        called: What the names of files beside the spec begin with, and the model's name if it has none.

    Raises:
        UnwritableModelError: The language cannot say it.
    """
    if functional_of(model) is None:
        if isinstance(model, keras.Sequential):
            raise UnwritableModelError({model.name: "it has no inputs: begin it with `keras.Input`"})
        raise UnwritableModelError({model.name: "its layers are in Python code, and not in a graph"})
    try:
        require_plain(model, *_METHODS)
    except UnwritableError as fault:
        raise UnwritableModelError({model.name: str(fault)}) from fault
    precision = _precision(model)
    reader = Reader(called)
    own = called if is_automatic(model.name, type(model).__name__) else model.name
    name = free_name(own, set(RESERVED))
    with keras_settings(precision):
        body = reader.body(model, name)
        if reader.faults:
            raise UnwritableModelError({**reader.faults, **_faults_of_training(model, config)})
        bodies = [body, *reader.blocks]
        fold(bodies, set(body.inputs.values()))
        reader.blocks[:] = bodies[1:]
        blocks = {each.name for each in reader.blocks}
        taken = {*RESERVED, *blocks, *body.inputs.values()}
        bindings, outputs = bindings_of(body, taken)
        if any(each in outputs[:at] for at, each in enumerate(outputs)):
            raise UnwritableModelError({model.name: "one tensor is two of its outputs"})
        training = training_of(model, config, outputs, taken)
    layers = [layer_block(each, blocks) for each in reader.blocks]
    inner = functional_of(model)
    inputs = {
        body.inputs[at]: ir.Input(tensor.dtype, tuple(tensor.shape[1:]))
        for at, tensor in enumerate(inner.inputs)
    }
    declared = [ir.Binding(each, made) for each, made in {**inputs, **training.labels}.items()]
    covered = len(training.loss) == len(outputs)
    named: tuple[ir.NamedOutput, ...] = ()
    if len(outputs) > 1 and not covered:
        names: set[str] = set()
        named = tuple(
            ir.NamedOutput(free_name(each, names), output)
            for each, output in zip(names_of_outputs(inner), outputs, strict=True)
        )
    written = ir.Model(
        name,
        (*declared, *bindings),
        tuple(training.loss),
        None,
        tuple(training.metrics),
        None if covered or named else outputs[0],
        named,
    )
    graph = elaborate(ir.Spec(written, layers=tuple(layers)))
    classes = dict.fromkeys(inputs, 2) | count_classes(graph, {}) | training.classes
    examples = {
        each: _feature(made, classes.get(each)) for each, made in {**inputs, **training.labels}.items()
    }
    one_number = tuple(model.outputs[0].shape[1:]) == (1,)
    return Draft(written, layers, body, training, precision, examples, inputs, one_number, reader.files)


def _faults_of_training(model: Any, config: Mapping[str, Any]) -> Mapping[str, str]:
    """Return what the language cannot say of `compile`, for a model of which it cannot say all either."""
    try:
        training_of(model, config, [ir.Ref("output")] * len(model.outputs), set())
    except UnwritableModelError as fault:
        return fault.faults
    return {}


def _precision(model: Any) -> str:
    """Return the precision in which most of a model computes."""
    policies = {each.dtype_policy.name for each in layers_within(model)}
    return next((each for each in ("mixed_float16", "mixed_bfloat16") if each in policies), "float32")


def _feature(declared: ir.Input, classes: int | None) -> ir.Call:
    """Return the call that makes up examples of an input."""
    wanted = declared.shape or ()
    shape = tuple(longest(wanted.count(None)) if each is None else each for each in wanted)
    dtype = str(declared.dtype)
    more: dict[str, ir.Value] = {"classes": classes} if classes is not None and "int" in dtype else {}
    return ir.Call("feature", (dtype, shape), more)


def text_of(
    made: Draft,
    *,
    weights: str | None,
    devices: Mapping[str, int],
    clones: int | None,
    examples: str | None = None,
) -> str:
    """Return the text of a spec.

    Args:
        devices: How many devices there are of each kind; empty for those that are found.
        clones: How many clones there are; None for one on each device.
        examples: The `data` block; None to make examples up.
    """
    layers = [_spaced(unparse.layer(each), _declared(each)) for each in made.layers]
    parts = ["tfdeploy = 1", *layers, _model(made)]
    features = [f"{name} = {value(each, schema_type())}" for name, each in made.examples.items()]
    if examples is not None:
        parts.append(examples)
    elif any(each.args[0] == "string" for each in made.examples.values()):
        asked = ", ".join(f'{each} = "COLUMN"' for each in made.examples)
        parts.append(f'# The examples to train on:\n# data {{ train = csv("FILE.csv", {asked}) }}')
    else:
        one = f"synthetic({EXAMPLES}, {', '.join(features)})"
        many = f"synthetic({EXAMPLES},\n{''.join(f'{each},{chr(10)}' for each in features)})"
        source = one if len(one) + len("  train = ") <= WIDTH else many
        comment = "# Made-up examples: put your own here, with `csv`, `npz`, `tfrecord` or `images`."
        parts.append(f"{comment}\n{block('data', [f'train = {source}'])}")
    if devices:
        parts.append(block("devices", [f"{kind} = {number}" for kind, number in devices.items()]))
    parts.append(block("clones", [*([f"count = {clones}"] if clones else []), "batch = 32"]))
    update = dict(made.training.update)
    if made.precision != "float32":
        update["precision"] = made.precision
    lines = _attributes("update", update)
    if "optimizer" not in update:
        lines.insert(0, "# How weights are updated:\n# optimizer = Adam(0.001)")
    parts.append(block("update", lines))
    train: dict[str, ir.Value] = {"epochs": 1}
    if weights is not None:
        train["weights"] = weights
    parts.append(block("train", _attributes("train", train)))
    return format_text(Source("<spec>", "\n\n".join(parts) + "\n"))


def schema_type() -> Any:
    """Return the type of what `synthetic` makes up."""
    found = schema.function("source", "synthetic")
    assert found is not None
    return found.rest


def _attributes(block: str, given: Mapping[str, ir.Value]) -> list[str]:
    types = {each.name: each.type for each in schema.BLOCKS[block].attributes}
    return [f"{name} = {value(each, types[name])}" for name, each in given.items()]


def _model(made: Draft) -> str:
    """Return the text of the model, with comments on what it does not say yet or no longer says."""
    text = _spaced(unparse.model(made.model), len(made.examples))
    comments = [f"# {each}" for each in made.training.lost]
    if not made.training.loss:
        label, loss = ("int32, []", "SparseCategoricalCrossentropy")
        if made.one_number:
            label, loss = ("float32, [1]", "MeanSquaredError")
        comments += [
            "# What to train for. The label is an input of the model, as each tensor of an example is:",
            f"# label = input({label})",
            f"# loss = [label, {_first_output(made.model)}] -> {loss}()",
        ]
    if not comments:
        return text
    return "\n".join([text.removesuffix("}").rstrip("\n"), "", *comments, "}"])


def _spaced(text: str, inputs: int) -> str:
    """Return the text of a block with empty lines behind its inputs, and before what a model gives."""
    header, *lines = text.split("\n")
    body = [*lines[:inputs], "", *lines[inputs:]]
    given = ("loss =", "output =") if header.startswith("model") else ()
    at = next((at for at, line in enumerate(body) if line.startswith(given)), 0)
    return "\n".join([header, *body[:at], *([""] if at > inputs + 1 else []), *body[at:]])


def _declared(block: ir.LayerBlock) -> int:
    """Return how many lines of a `layer` block name its parameters and inputs."""
    return len(block.parameters) + sum(isinstance(each.value, ir.Input) for each in block.bindings)


def _first_output(model: ir.Model) -> str:
    output = model.output if model.output is not None else model.outputs[0].value
    return output.name if isinstance(output, ir.Ref) else "prediction"


# --- bindings and flows -----------------------------------------------------------------------------------

MOST_INLINE = 4
"""How many operations an expression may have before parts of it get names."""


def bindings_of(body: Body, taken: set[str]) -> tuple[tuple[ir.Binding, ...], list[ir.Expr]]:
    """Return the bindings of a body without its inputs, and its outputs.

    Args:
        taken: Names that no binding may have; those of the bindings are added.
    """
    writer = _Writer(body, body.uses(), taken)
    return writer.written()


@define
class _Writer:
    body: Body
    uses: dict[int, int]
    taken: set[str]
    bindings: list[ir.Binding] = field(factory=list)
    _names: dict[int, str] = field(factory=dict)
    _open: dict[int, ir.Expr] = field(factory=dict)
    _words: dict[int, str] = field(factory=dict)

    def written(self) -> tuple[tuple[ir.Binding, ...], list[ir.Expr]]:
        self._names.update(self.body.inputs)
        for name, step in self.body.shared.items():
            self.taken.add(name)
            self.bindings.append(ir.Binding(name, ir.SharedLayer(step)))
        for node in self.body.nodes:
            if node.kind == "weight":
                self._names[node.outputs[0]] = name = free_name(node.name, self.taken)
                self.bindings.append(ir.Binding(name, ir.Weight(node.call)))
                continue
            made = self._expression(node)
            if len(node.outputs) == 1:
                self._open[node.outputs[0]] = made
                self._words[node.outputs[0]] = node.name
            else:
                names = [
                    free_name(node.name, self.taken) if each in self.uses else "_" for each in node.outputs
                ]
                self.bindings.append(ir.Binding(names[0], made, tuple(names[1:])))
                self._names.update(zip(node.outputs, names, strict=True))
        outputs = [self._named(each) for each in self.body.outputs]
        return tuple(self.bindings), outputs

    def _named(self, value: int) -> ir.Expr:
        """Return a reference to a value, which gets a binding unless it has one."""
        if value not in self._names:
            self._names[value] = free_name(self._words[value], self.taken)
            self.bindings.append(ir.Binding(self._names[value], self._open.pop(value)))
        return ir.Ref(self._names[value])

    def _inline(self, value: int, *, flows: bool) -> ir.Expr:
        """Return what makes a value if it is used here alone and short enough, else a reference to it."""
        made = self._open.get(value)
        if made is None or self.uses[value] > 1 or (isinstance(made, ir.Flow) and not flows):
            return self._named(value)
        if not isinstance(made, ir.Flow) and _size(made) > MOST_INLINE:
            return self._named(value)
        return self._open.pop(value)

    def _expression(self, node: Node) -> ir.Expr:
        if node.kind == "operation":
            return self._operation(node)
        if node.kind == "index":
            tensor = self._inline(node.inputs[0], flows=False)
            return ir.Index(tensor, tuple(self._filled(each, node) for each in node.call.args))
        given = {key: self._filled(each, node) for key, each in node.given.items()}
        step = ir.Step(node.kind, node.call, given=given)  # type: ignore[arg-type] # weights are bound
        if node.count > 1:
            step = ir.Step("repeat", ir.Call("repeat"), node.count, step)
        sources = node.inputs[: node.sources]
        if len(sources) == 1:
            source = self._inline(sources[0], flows=True)
        else:
            source = ir.Group(tuple(self._named(each) for each in sources))
        if isinstance(source, ir.Flow):
            return ir.Flow(source.source, (*source.steps, step))
        return ir.Flow(source, (step,))

    def _operation(self, node: Node) -> ir.Operation:
        args = tuple(self._filled(each, node) for each in node.call.args)
        kwargs = {key: self._filled(each, node) for key, each in node.call.kwargs.items()}
        return ir.Operation(node.call.name, args, kwargs)

    def _filled(self, argument: Any, node: Node) -> Any:
        """Return an argument with tensors in the places that stand for them."""
        if isinstance(argument, At):
            return self._inline(node.inputs[argument.number], flows=False)
        if isinstance(argument, tuple):
            filled = tuple(self._filled(each, node) for each in argument)
            is_group = any(isinstance(each, ir.Ref | ir.Flow | ir.Index | ir.Operation) for each in filled)
            return ir.Group(filled) if is_group else filled
        return argument


def _size(expression: Any) -> int:
    """Return how many operations an expression has."""
    if isinstance(expression, ir.Operation):
        return 1 + sum(map(_size, (*expression.args, *expression.kwargs.values())))
    if isinstance(expression, ir.Index):
        return 1 + _size(expression.tensor)
    return sum(map(_size, expression.items)) if isinstance(expression, ir.Group) else 0


def layer_block(body: Body, block_names: set[str]) -> ir.LayerBlock:
    """Return the `layer` block of a body."""
    inputs = tuple(ir.Binding(each, ir.Input(None, None)) for each in body.inputs.values())
    names = {*block_names, *body.inputs.values(), *(each.name for each in body.parameters), *RESERVED}
    bindings, outputs = bindings_of(body, names)
    output: ir.Expr = outputs[0] if len(outputs) == 1 else ir.Group(tuple(outputs))
    last = bindings[-1] if bindings else None
    if last is not None and output == ir.Ref(last.name) and not last.others:
        bindings, output = bindings[:-1], last.value  # type: ignore[assignment] # a flow comes last
    return ir.LayerBlock(body.name, body.parameters, (*inputs, *bindings), output)
