"""The page of functions: sources, transforms, aggregations and clips."""

from __future__ import annotations

from dsl.schema import FUNCTIONS, Function
from dsl.schema.types import Argument
from tools.reference.markdown import NOTICE, table, takes, written

SECTIONS = {
    "source": (
        "Sources",
        "Where examples come from, in [`data`](blocks.md#data). [Bring your data](../how-to/data.md) has examples.",
    ),
    "feature": ("Features", "What a tensor of a `tfrecord` or `synthetic` source is."),
    "transform": (
        "Transforms",
        "What happens to examples, in [`data`](blocks.md#data), after a source and a `->`.",
    ),
    "length": ("Lengths", "Values of `to` of the transform `pad`, beside numbers."),
    "aggregation": (
        "Aggregations",
        "Values of `aggregate` in [`update`](blocks.md#update). All give the same sum, up to rounding, and differ in what travels where.",
    ),
    "compression": (
        "Compressions",
        "Values of `compress` in [`update`](blocks.md#update). Sums have the error of what is sent. [Train on a cluster](../how-to/clusters.md#send-less-between-machines) has examples.",
    ),
    "clip": (
        "Clips",
        "Values of `clip` in [`update`](blocks.md#update). Gradients are clipped after they were summed over the clones.",
    ),
    "average": (
        "Averages",
        "Values of `ema` in [`update`](blocks.md#update), beside a number, which is the decay.",
    ),
    "recomputation": (
        "Recomputations",
        "Values of `recompute` in [`update`](blocks.md#update). All give the same gradients. [A model that does not fit](../how-to/memory.md) has examples.",
    ),
    "goal": ("Goals", "Values of `best` in [`train`](blocks.md#train): which evaluation is the best one."),
    "tracker": (
        "Trackers",
        "Values of `track` in [`train`](blocks.md#train). [Compare runs and sweep](../how-to/compare.md#send-runs-elsewhere) has examples.",
    ),
    "optimizer": (
        "Optimizers",
        "Values of `optimizer` in [`update`](blocks.md#update), beside [those of Keras](keras.md#optimizers).",
    ),
    "schedule": (
        "Schedules",
        "Values of a `learning_rate`, beside numbers and [the schedules of Keras](keras.md#schedules).",
    ),
    "layer": ("Layers", "Steps of a flow, beside [those of Keras](keras.md#layers)."),
    "loss": ("Losses", "Losses of a model, beside [those of Keras](keras.md#losses)."),
    "metric": ("Metrics", "Metrics of a model, beside [those of Keras](keras.md#metrics)."),
    "initializer": ("Initializers", "Arguments of layers, beside [those of Keras](keras.md#initializers)."),
    "regularizer": (
        "Regularizers",
        "Values of `regularize` and arguments of layers, beside [those of Keras](keras.md#regularizers).",
    ),
    "constraint": ("Constraints", "Arguments of layers, beside [those of Keras](keras.md#constraints)."),
    "activation": ("Activations", "Arguments of layers, beside [those of Keras](keras.md#activations)."),
}


def page() -> str:
    """Return the text of the page."""
    assert SECTIONS.keys() == FUNCTIONS.keys(), "a table of functions has no section"
    sections = [_section(kind, title, said) for kind, (title, said) in SECTIONS.items()]
    head = (
        "# Functions of the language\n\nArguments are given by position, in the order below, or by name.\n\n"
    )
    return (NOTICE + head + "".join(sections)).rstrip("\n") + "\n"


def _section(kind: str, title: str, said: str) -> str:
    return f"## {title}\n\n{said}\n\n" + "".join(_function(each) for each in FUNCTIONS[kind])


def _function(function: Function) -> str:
    parts = [f"### {function.name}\n\n`{_call(function)}`: {function.doc}.\n\n"]
    rows = [_row(each) for each in function.arguments]
    if function.rest is not None:
        rows.append(
            ["any other", "" if function.rest.kind == "any" else takes(function.rest), "", "see above"]
        )
    if rows:
        parts.append(table(["argument", "takes", "default", "meaning"], rows))
    return "".join(parts)


def _call(function: Function) -> str:
    names = [each.name if each.positional else f"{each.name} = ..." for each in function.arguments]
    return f"{function.name}({', '.join([*names, 'name = ...'] if function.rest is not None else names)})"


def _row(argument: Argument) -> list[str]:
    default = "required" if argument.required else f"`{written(argument.default)}`"
    by_name = "" if argument.positional else "; by name only"
    return [f"`{argument.name}`", takes(argument.type), default, f"{argument.doc}{by_name}"]
