"""The page of Keras's names, from the table that checks them."""

from __future__ import annotations

import json
from collections import Counter
from importlib.metadata import version

from dsl.checks.model import MIXING
from dsl.schema import signatures
from dsl.schema.types import Argument, Function
from tools.reference.markdown import NOTICE, written

TITLES = {
    "layer": (
        "Layers",
        "Steps of a flow in `model` and `layer`. All of them take `name`, `trainable` and `dtype` too.",
    ),
    "application": (
        "Applications",
        "Whole models, as steps: `image -> applications.ResNet50(weights = none)`.",
    ),
    "loss": ("Losses", "`loss = [target, prediction] -> Loss()` in `model`; each also takes `class_weight`."),
    "metric": (
        "Metrics",
        "`name = [target, prediction] -> Metric()` in `metrics`; each also takes `class_weight`.",
    ),
    "optimizer": (
        "Optimizers",
        (
            "`optimizer` in `update`. `Momentum` is `SGD` with a momentum of 0.9."
            " [`exclude_from_weight_decay`](../how-to/numerics.md#weight-decay) lists globs of weights."
            " With `lazy = true`, rows of a table that a batch does not use are left as they are;"
            " [see the how-to](../how-to/placement.md#cut-a-variable-into-pieces)."
        ),
    ),
    "schedule": (
        "Schedules",
        "Learning rates that change over the steps: `Adam(learning_rate = CosineDecay(...))`.",
    ),
    "regularizer": (
        "Regularizers",
        "`regularize` in `model`, and arguments of layers. Also as words, in small letters.",
    ),
    "initializer": (
        "Initializers",
        "Arguments of layers. Also as words in small letters, such as `he_normal`.",
    ),
    "constraint": ("Constraints", "Arguments of layers."),
    "operation": (
        "Operations",
        (
            "Functions of tensors in `model` and `layer`: `ops.softmax(x, axis = -1)`. `...` stands for any number of"
            " tensors, `**` for arguments of any name."
        ),
    ),
    "activation": (
        "Activations",
        "Words for `activation`; with arguments, calls: `leaky_relu(negative_slope = 0.1)`.",
    ),
}
MOST_OWNERS = 8
COMMON = ("trainable", "dtype", "name")


def page() -> str:
    """Return the text of the page."""
    assert TITLES.keys() == {*signatures.CATEGORIES, "operation"}, "a category of Keras's has no section"
    head = (
        f"# Names from Keras\n\nWhat a spec can use of Keras {_version()}, with the arguments that it takes. An argument"
        " without a default is required; those after `*` are given by name only. `check` knows all of this without"
        " starting Keras. What each does is in [Keras's own documentation](https://keras.io/api/).\n\n"
    )
    return (NOTICE + head + "".join(_section(each) for each in TITLES) + _words()).rstrip("\n") + "\n"


def _version() -> str:
    return ".".join(version("keras").split(".")[:2])


def _section(category: str) -> str:
    title, said = TITLES[category]
    lines = [_line(category, name) for name in shown(category)]
    return f"## {title}\n\n{said}\n\n" + "".join(lines) + "\n"


def shown(category: str) -> list[str]:
    """Return the names of a category that the page has.

    It leaves out the names in small letters that stand for classes, and the layers that every model refuses.
    """
    in_small_letters = category in {"activation", "operation"}
    refused = MIXING if category == "layer" else ()
    return [
        name
        for name in signatures.names(category)
        if (in_small_letters or name[0].isupper()) and name not in refused
    ]


def _line(category: str, name: str) -> str:
    found = signatures.find(category, name)
    assert found is not None
    if found.name != name:
        return f"- `{name}`: `{found.name}`\n"
    prefix = {"application": "applications.", "operation": "ops."}.get(category, "")
    return f"- `{prefix}{name}({', '.join(_arguments(category, found))})`\n"


def _arguments(category: str, function: Function) -> list[str]:
    own = [each for each in function.arguments if category != "layer" or each.name not in COMMON]
    positional = [_argument(each) for each in own if each.positional]
    keywords = [_argument(each) for each in own if not each.positional]
    if function.repeating:
        positional.append("...")
    if function.rest is not None:
        keywords.append("**")
    return [*positional, *(["*", *keywords] if keywords else [])]


def _argument(argument: Argument) -> str:
    if argument.required:
        return argument.name
    default = argument.default
    text = (
        json.dumps(default)
        if argument.type.kind in {"any", "str"} and isinstance(default, str)
        else written(default)
    )
    return f"{argument.name} = {text}"


def _words() -> str:
    """Return the words that arguments take, by argument."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for category in signatures.CATEGORIES:
        for name in signatures.names(category):
            signature = signatures.find(category, name)
            for each in signature.arguments if signature is not None else ():
                if each.type.kind == "word":
                    found.setdefault((each.name, each.type.words), []).append(name)
    variants = Counter(argument for argument, _ in found)
    lines = [
        f"- `{argument}`{_of(owners) if variants[argument] > 1 else ''}: {', '.join(f'`{word}`' for word in words)}\n"
        for (argument, words), owners in sorted(found.items())
    ]
    return "## Words\n\nArguments that take one of a few words, which need no quotes.\n\n" + "".join(lines)


def _of(owners: list[str]) -> str:
    """Say of which objects an argument is; of many, that it is of the others."""
    return f" of {', '.join(f'`{each}`' for each in owners)}" if len(owners) <= MOST_OWNERS else " elsewhere"
