"""Write `dsl/schema/keras_signatures.json` from the installed Keras; `--check` only compares the two.

Names, order and defaults come from Keras's own signatures. What an argument takes comes, in this order,
from `kinds.py` (by class and argument, then by argument), from its default, and from what its documentation
says. Arguments that a class hands on to a base class are found by making one of it with each of them. A row
is `[name, kind]` or, with a default, `[name, kind, default]`. Kinds are as in `dsl/schema/signatures.py`,
followed by the bounds of numbers, such as `[1,]` or `(0,1)`, by the length of a list, such as `*2`, or by the
only value that works, as in `bool=false`; then by `:words` or `:category`, and by `?` if `none` is allowed.
`*` ends the arguments that may be given by position, and `@group` stands for the rows of a group in `shared`.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
from keras.src import activations, initializers, regularizers
from keras.src import constraints as constraint_table
from keras.src.backend.common.dtypes import ALLOWED_DTYPES
from kinds import EXCLUDED, KINDS, LEFT_OUT, NO_OPERATIONS, OPTIMIZERS, REQUIRED, SAMPLES, SCHEDULES, WORDS
from ranges import with_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TABLE = Path(__file__).parent.parent / "dsl" / "schema" / "keras_signatures.json"
MODULES = {
    "layer": (keras.layers, keras.Layer),
    "loss": (keras.losses, keras.losses.Loss),
    "metric": (keras.metrics, keras.metrics.Metric),
    "initializer": (keras.initializers, keras.initializers.Initializer),
    "regularizer": (keras.regularizers, keras.regularizers.Regularizer),
    "constraint": (keras.constraints, keras.constraints.Constraint),
}
Row = list[Any]
LAZY = ("Adam", "AdamW", "Adamax")
_BASES = {"initializer", "regularizer", "constraint"}


def main(arguments: list[str]) -> int:
    """Write the table, or compare it."""
    made = text()
    if "--check" in arguments:
        if TABLE.read_text(encoding="utf-8") == made:
            return 0
        print(
            f"{TABLE} is not what Keras {keras.__version__} has: run {Path(__file__).name}", file=sys.stderr
        )
        return 1
    TABLE.write_text(made, encoding="utf-8")
    print(f"{TABLE}: {len(made)} bytes")
    return 0


def _table() -> dict[str, Any]:
    words = _words()
    table: dict[str, Any] = {"words": words, "shared": {}, "aliases": {}}
    table["shared"]["layer"] = [
        row
        for row in _rows(keras.Layer, words)[1:]
        if row[0] in {"activity_regularizer", "trainable", "dtype", "name"}
    ]
    for category, (module, base) in MODULES.items():
        classes, aliases = _classes(module, base)
        table[category] = {
            name: _bounded(owner, name, _signature(owner, category, table)) for name, owner in classes.items()
        }
        table["aliases"][category] = aliases
    table["optimizer"] = {
        name: _bounded(_optimizer_class(name), name, _optimizer(name, words)) for name in OPTIMIZERS
    }
    schedules = keras.optimizers.schedules
    made = {name: getattr(schedules, name) for name in SCHEDULES}
    table["schedule"] = {name: _bounded(owner, name, _rows(owner, words)) for name, owner in made.items()}
    applications = [name for name in dir(keras.applications) if name[0].isupper()]
    table["application"] = {name: _rows(getattr(keras.applications, name), words) for name in applications}
    table["activation"] = {name: _rows(activations.get(name), words) for name in words["activation"]}
    table["operation"] = {name: _operation(function) for name, function in _operations()}
    for category in ("optimizer", "schedule", "application", "activation", "operation"):
        table["aliases"][category] = {}
    return table


def _words() -> dict[str, list[str]]:
    """Return the sets of words; those of Keras's own tables hold the snake-case names that it accepts."""
    return {
        "activation": _accepted(
            activations.ALL_OBJECTS_DICT, lambda name: activations.get(name)(keras.ops.ones((2, 2)))
        ),
        "initializer": _accepted(
            initializers.ALL_OBJECTS_DICT, lambda name: initializers.get(name)((2, 2), "float32")
        ),
        "regularizer": _accepted(
            regularizers.ALL_OBJECTS_DICT, lambda name: regularizers.get(name)(keras.ops.ones((2, 2)))
        ),
        "constraint": _accepted(
            constraint_table.ALL_OBJECTS_DICT, lambda name: constraint_table.get(name)(keras.ops.ones((2, 2)))
        ),
        "dtype": [*sorted(ALLOWED_DTYPES), "mixed_bfloat16", "mixed_float16"],
        "left_out_operation": sorted(NO_OPERATIONS),
        **{key: list(value) for key, value in WORDS.items()},
    }


def _accepted(known: dict[Any, Any], use: Callable[[str], Any]) -> list[str]:
    """Return the lower-case names of `known` with which `use` works; those that need arguments do not."""
    found = []
    for name in sorted(
        name for name in known if isinstance(name, str) and name == name.lower() and name not in _BASES
    ):
        try:
            use(name)
        except (KeyError, TypeError, ValueError, NotImplementedError):
            continue
        found.append(name)
    return found


def _classes(module: Any, base: type) -> tuple[dict[str, type], dict[str, str]]:
    """Return the concrete classes that `module` exports, and the other names that it gives them."""
    classes: dict[str, type] = {}
    aliases: dict[str, str] = {}
    for name in sorted(dir(module)):
        owner = getattr(module, name)
        if (
            not inspect.isclass(owner)
            or not issubclass(owner, base)
            or owner is base
            or owner.__name__ in EXCLUDED
        ):
            continue
        if owner.__name__ == name or not hasattr(module, owner.__name__):
            classes[name] = owner
        else:
            aliases[name] = owner.__name__
    return classes, aliases


def _signature(owner: type, category: str, table: dict[str, Any]) -> list[Any]:
    """Return the rows of `owner` with those of the arguments that it hands on to its base classes."""
    rows = _rows(owner, table["words"])
    have = {row[0] for row in rows}
    handed_on = [
        _row(base, each, table["words"])
        for base, each in _handed_on(owner)
        if each.name not in have and _takes(owner, rows, each)
    ]
    shared = table["shared"]["layer"] if category == "layer" else []
    if shared and all(row in handed_on for row in shared):
        handed_on = [*(row for row in handed_on if row not in shared), "@layer"]
    if not handed_on:
        return rows
    return [*rows, *handed_on] if "*" in rows else [*rows, "*", *handed_on]


def _handed_on(owner: type) -> Iterator[tuple[type, inspect.Parameter]]:
    """Yield the optional arguments of the base classes that `owner` may hand on, nearest first, once each."""
    seen: set[str] = set()
    open_ended = True
    for base in owner.__mro__:
        if "__init__" not in vars(base) or not base.__module__.startswith("keras."):
            continue
        if not open_ended:
            return
        parameters = inspect.signature(base.__init__).parameters
        for name, each in parameters.items():
            optional = each.default is not each.empty and name not in seen and not _left_out(base, name)
            if base is not owner and optional:
                seen.add(name)
                yield base, each
        open_ended = any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def _takes(owner: type, rows: list[Any], argument: inspect.Parameter) -> bool:
    """Whether `owner` can be made with its required arguments and `argument` at its default."""
    required = {each[0]: sample(owner, each) for each in rows if each != "*" and _is_required(each)}
    owner(**required)
    try:
        owner(**required, **{argument.name: argument.default})
    except (TypeError, ValueError):
        return False
    return True


def _is_required(row: Row) -> bool:
    return len(row) == len(["name", "kind"])


def sample(owner: type, row: Row) -> Any:
    """Return a value with which argument `row` of `owner` can be given."""
    name, kind = row
    if name == "cells":
        return [keras.layers.LSTMCell(2)]
    if kind in {"call:layer", "calls:layer"}:
        return {"RNN": keras.layers.LSTMCell, "Bidirectional": keras.layers.LSTM}.get(
            owner.__name__, keras.layers.Dense
        )(2)
    return next(SAMPLES[key] for key in (f"{owner.__name__}.{name}", kind) if key in SAMPLES)


def _optimizer(name: str, words: dict[str, list[str]]) -> list[Row]:
    """Return the rows of an optimizer; `Momentum` is Keras's SGD with another default.

    Keras leaves weights out of weight decay by a method, which an argument of ours stands for. That Adam may
    leave rows without a gradient as they are is an argument of ours, too.
    """
    rows = _rows(_optimizer_class(name), words)
    if name == "Momentum":
        rows = [["momentum", "float", 0.9] if row[0] == "momentum" else row for row in rows]
    own = [["lazy", "bool", False]] if name in LAZY else []
    return [*rows, *([] if "*" in rows else ["*"]), ["exclude_from_weight_decay", "strings", None], *own]


def _optimizer_class(name: str) -> type:
    owner: type = keras.optimizers.SGD if name == "Momentum" else getattr(keras.optimizers, name)
    return owner


def _bounded(owner: Any, name: str, rows: list[Any]) -> list[Any]:
    """Return the rows of an object with the bounds of its arguments."""
    required = {
        each[0]: sample(owner, each) for each in rows if isinstance(each, list) and _is_required(each)
    }
    return with_ranges(owner, name, rows, required)


def _operations() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions of `keras.ops` that make tensors from tensors and plain values, by their names."""
    for prefix, module in (("", keras.ops), ("image.", keras.ops.image)):
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if (
                inspect.isfunction(function)
                and not name.startswith("_")
                and prefix + name not in NO_OPERATIONS
            ):
                yield prefix + name, function


def _operation(function: Callable[..., Any]) -> list[Any]:
    """Return the rows of an operation. `...` stands for any number of positional ones, `**` for any names."""
    rows: list[Any] = []
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.VAR_POSITIONAL:
            rows.append("...")
        elif each.kind is each.VAR_KEYWORD:
            rows.append("**")
        else:
            if each.kind is each.KEYWORD_ONLY and "*" not in rows:
                rows.append("*")
            default = [] if each.default is each.empty else [_plain(each.default)]
            kind = f"word:{each.name}?" if each.name in {"dtype", "data_format"} else "any"
            rows.append([each.name, kind, *(each if isinstance(each, _PLAIN) else None for each in default)])
    return rows


_PLAIN = (bool, int, float, str, list, type(None))


def _rows(owner: Any, words: dict[str, list[str]]) -> list[Any]:
    """Return the rows of the arguments that `owner`, a class or a function, has itself."""
    function = owner.__init__ if inspect.isclass(owner) else owner
    parameters = list(inspect.signature(function).parameters.values())
    if inspect.isclass(owner) or parameters[0].name == "x":  # an activation's tensor comes from the layer
        del parameters[0]
    rows: list[Any] = []
    for each in parameters:
        if each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD}:
            continue
        left_out = _left_out(owner, each.name)  # what follows it cannot be given by position any more
        if (left_out or each.kind is each.KEYWORD_ONLY) and "*" not in rows:
            rows.append("*")
        if left_out:
            continue
        rows.append(_row(owner, each, words))
    return rows[:-1] if rows[-1:] == ["*"] else rows


def _left_out(owner: Any, name: str) -> bool:
    return name in LEFT_OUT or f"{owner.__name__}.{name}" in LEFT_OUT


def _row(owner: Any, parameter: inspect.Parameter, words: dict[str, list[str]]) -> Row:
    told = _documented(owner).get(parameter.name, "")
    has_default = (
        parameter.default is not parameter.empty and f"{owner.__name__}.{parameter.name}" not in REQUIRED
    )
    default = parameter.default if has_default else None
    kind = _kind(owner, parameter.name, default, told, words)
    if has_default and isinstance(default, str) and kind.startswith(("word", "call")):
        known = words[kind.partition(":")[2].rstrip("?")]
        default = default if default in known else default.lower()
        if default not in known:
            raise LookupError(f"{owner.__name__}.{parameter.name}: {default!r} is not one of {known}")
    nullable = default is not None and (re.search(r"`?None`?", told) or kind.startswith("call"))
    return [
        parameter.name,
        kind + ("?" if nullable and has_default else ""),
        *([_plain(default)] if has_default else []),
    ]


def _kind(owner: Any, name: str, default: Any, told: str, words: dict[str, list[str]]) -> str:
    for key in (f"{owner.__name__}.{name}", name):
        if key in KINDS:
            return KINDS[key]
    object_of = re.search(r"(initializer|regularizer|constraint|activation)$", name)
    if object_of:
        return f"call:{object_of.group()}"
    if name in words:
        return f"word:{name}"
    of_default = {bool: "bool", int: "int", float: "float", tuple: "shape"}.get(type(default))
    kind = of_default or next((kind for lead, kind in _TOLD if re.match(lead, told, re.IGNORECASE)), None)
    if kind is None:
        raise LookupError(f"{owner.__name__}.{name}: say in kinds.py what it takes ({default!r}, {told!r})")
    return kind


_LEAD = r"(an?|the|optional|strictly|positive|python|single|unsigned|\(optional\)|[,. ])*"
_TOLD = (
    (_LEAD + r"(int|integer)s?\b,? (or )?.*?(tuple|list)", "shape"),
    (_LEAD + r"(tuple|list)(/list|/tuple)? of (\d )?int", "shape"),
    (_LEAD + r"(int|integer)\b", "int"),
    (_LEAD + r"float\b", "float"),
    (_LEAD + r"bool(ean)?\b", "bool"),
    (_LEAD + r"string\b", "str"),
)


def _documented(owner: Any) -> dict[str, str]:
    """Return what the documentation of `owner` says of each argument."""
    section = re.search(r"^Args:\n((?:[ \t]+.*\n|\n)*)", (inspect.getdoc(owner) or "") + "\n", re.MULTILINE)
    told: dict[str, str] = {}
    at: list[str] = []
    for line in section.group(1).splitlines() if section else []:
        start = re.match(r" {4}(\w+(?:, ?\w+)*)\s*:(.*)", line)
        if start:
            at = [name.strip() for name in start.group(1).split(",")]
        for name in at:
            told[name] = f"{told.get(name, '')} {(start.group(2) if start else line).strip()}".strip()
    return told


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def text() -> str:
    """Return the table as JSON with a line for each signature."""
    groups = []
    for key, value in _table().items():
        lines = [f"  {_compact(name)}:{_compact(rows)}" for name, rows in sorted(value.items())]
        groups.append(f"{_compact(key)}:{{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(groups) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
