"""The text of a spec that says what a Keras model is, and how it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from compiler.graph.adapters.keras_private import functional_of, layers_within, names_of_outputs
from compiler.graph.tower.network.precision import dtype_policy
from compiler.model.elaborate import elaborate
from dsl import ir, schema
from dsl.source import Source
from grammar import unparse
from grammar.format import WIDTH, format_text
from grammar.unparse import block, value
from tfdeploy.onramp.body import Body
from tfdeploy.onramp.flow import bindings_of, layer_block
from tfdeploy.onramp.folding import fold
from tfdeploy.onramp.graph import RESERVED, Reader, free_name
from tfdeploy.onramp.objects import UnwritableModelError, is_automatic
from tfdeploy.onramp.training import Training, training_of
from tfdeploy.runtime.verify.examples import count_classes, longest

EXAMPLES = 256


@define
class Draft:
    """A spec in the making.

    Attributes:
        model: The `model` block.
        layers: The `layer` blocks.
        body: The body of the model, whose values its nodes have.
        training: What `compile` was given.
        precision: The precision, as `update` has it.
        examples: What makes up examples of each input and label.
        inputs: The inputs without the labels.
        one_number: Whether the model gives one number for each example.
        files: The texts of the vocabularies that the spec reads from files beside it, by their names.
    """

    model: ir.Model
    layers: list[ir.LayerBlock]
    body: Body
    training: Training
    precision: str
    examples: dict[str, ir.Call] = field(factory=dict)
    inputs: dict[str, ir.Input] = field(factory=dict)
    one_number: bool = False
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
        raise UnwritableModelError({model.name: "its layers are in Python code, and not in a graph"})
    precision = _precision(model)
    reader = Reader(called)
    own = called if is_automatic(model.name, type(model).__name__) else model.name
    name = free_name(own, set(RESERVED))
    with dtype_policy(precision):
        body = reader.body(model, name)
        if reader.faults:
            raise UnwritableModelError({**reader.faults, **_faults_of_training(model, config)})
        bodies = [body, *reader.blocks]
        fold(bodies, set(body.inputs.values()))
        reader.blocks[:] = bodies[1:]
        blocks = {each.name for each in reader.blocks}
        taken = {*RESERVED, *blocks, *body.inputs.values()}
        bindings, outputs = bindings_of(body, taken)
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
        made: What it says of the model.
        weights: The file of weights from which training starts, if there is one.
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


__all__ = ["Draft", "UnwritableModelError", "draft", "text_of"]
