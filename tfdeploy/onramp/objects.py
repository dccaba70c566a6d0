"""Objects of Keras as calls of the language, with only those arguments that Keras does not give by itself.

An argument is left out, or written shorter (`3` for `[3, 3]`), if the object that Keras makes of what is then
written has the configuration of the original. So nothing here has to know what Keras's defaults are.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import keras
import numpy as np
from attrs import evolve, frozen

from compiler.graph.adapters.keras_private import configuration_of, first_word_index, lookup_of
from compiler.graph.tower.network.keras_scope import stateless
from compiler.graph.user_code import BESIDE_SPEC
from compiler.model.elaborate import snake_case
from dsl import ir
from dsl.schema import signatures
from dsl.schema.types import Argument, Function

IGNORED = ("name", "build_config", "vocabulary_size")
LARGEST_ARRAY = 64
"""How many numbers an array may have that is written into a spec."""

MOST_WORDS = 1000
"""How many words of a vocabulary, or numbers that a layer has learnt, are written into a spec.

More words are written into a file beside it.
"""

_CLASSES = {
    "layer": keras.layers,
    "loss": keras.losses,
    "metric": keras.metrics,
    "optimizer": keras.optimizers,
    "schedule": keras.optimizers.schedules,
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
    "activation": keras.activations,  # which are functions
}


class UnwritableError(Exception):
    """Something of a model that the language cannot say; the message is a reason in a sentence."""


class UnwritableModelError(Exception):
    """A model that the language cannot say; `faults` has the reason by the name of each layer."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {reason}" for name, reason in faults.items()))
        self.faults = dict(faults)


def own_objects(made: Iterable[Any]) -> dict[str, Any]:
    """Return the classes and functions of the user's that objects are of or hold, as Keras names them."""
    held = [value for each in made for value in (each, *getattr(each, "__dict__", {}).values())]
    kinds = {each if inspect.isfunction(each) else type(each) for each in held if callable(each)}
    own = (each for each in kinds if each.__module__.partition(".")[0] not in {"builtins", "keras"})
    return {keras.saving.get_registered_name(each): each for each in own}


def call_of(made: Any, category: str, besides: tuple[str, ...] = ()) -> ir.Call:
    """Return the call that makes an object of Keras, or of a class that can be imported.

    Raises:
        UnwritableError: The language has no call for it.
    """
    kind = type(made)
    config = _plain(configuration_of(made))
    name = _public_name(kind, category)
    signature = signatures.find(category, name)
    if signature is None:
        return _own(made, config, category, besides)
    names = [each.name for each in signature.arguments if each.name not in {"name", *besides}]
    given = {each: _policy_by_name(config[each]) for each in names if each in config}
    needed = frozenset(each.name for each in signature.arguments if each.required)
    key = f"{category} {name} {json.dumps(config_without(config, besides), sort_keys=True)} {_ambient()}"
    if key not in _known:
        shapes = made.get_build_config() if category == "layer" and made.built else None
        _known[key] = _Search(kind, config_without(config, besides), besides, shapes).shortest(given, needed)
    shortest = _known[key]
    if shortest is None:
        _require_all_understood({each: config.get(each) for each in names})
        strange = {each for each, value in config.items() if value is not None} - {*names, *IGNORED}
        others = [each for each in config if each in strange]
        raise UnwritableError(f"`{name}` with {_listed(others)}" if others else f"this `{name}`")
    call = _call(
        name, signature, shortest, leading=category in {"layer", "optimizer", "regularizer", "schedule"}
    )
    if name not in STATES:
        return call
    given = {key: each for key, each in call.kwargs.items() if key not in signatures.ADAPTED_FROM[name]}
    return evolve(call, kwargs={**given, **state_of(made)})


STATES = tuple(signatures.STATES)
"""Layers that know more than their weights, which `adapt` has told them."""


def state_of(layer: Any) -> dict[str, ir.Value]:
    """Return what `adapt` has told a layer, as arguments; nothing if it was given as arguments.

    Raises:
        UnwritableError: The layer has learnt nothing, or too many numbers for a spec.
    """
    config = layer.get_config()
    if type(layer).__name__ == "Discretization":  # whose configuration has what it has learnt
        if config["bin_boundaries"] is None:
            raise UnwritableError("it has no boundaries: adapt it first")
        return {}
    if type(layer).__name__ == "Normalization":
        if config["mean"] is not None or not layer.built:
            return {}
        return {"mean": _numbers(layer.mean), "variance": _numbers(layer.variance)}
    words = [value_of(each) for each in _plain(layer.get_vocabulary(include_special_tokens=False))]
    if config.get("vocabulary") is not None:
        return {}
    if not words:
        raise UnwritableError("it has no vocabulary: adapt it first")
    lookup = lookup_of(layer)
    if lookup.output_mode != "tf_idf":
        return {"vocabulary": tuple(words)}
    first = first_word_index(lookup)
    weights = _numbers(np.asarray(lookup.idf_weights)[first : first + len(words)])
    return {"vocabulary": tuple(words), "idf_weights": weights if len(words) > 1 else (weights,)}


def _numbers(array: Any) -> ir.Value:
    """Return the numbers of an array, of which there are not too many."""
    numbers = np.asarray(array, np.float64).ravel()
    if numbers.size > MOST_WORDS:
        raise UnwritableError(f"it has learnt {numbers.size:,} numbers")
    found = tuple(short_number(float(each)) for each in numbers)
    return found if np.ndim(array) and numbers.size > 1 else found[0]


_known: dict[str, dict[str, Any] | None] = {}


def _ambient() -> tuple[str, str]:
    """Return what Keras gives by itself for the whole process, so that it need not be written."""
    return keras.config.dtype_policy().name, keras.config.image_data_format()


def config_without(config: Any, besides: tuple[str, ...] = ()) -> Any:
    """Return a configuration to compare: without names, which Keras numbers, and with numbers of 32 bits."""
    if isinstance(config, dict):
        if _is_policy(config):
            return _policy_by_name(config)
        left_out = {*IGNORED, *besides}
        return {key: config_without(each) for key, each in config.items() if key not in left_out}
    if isinstance(config, list):
        return [config_without(each) for each in config]
    return short_number(config) if isinstance(config, float) else config


@frozen
class _Search:
    """Looks for as few and as short arguments as make an object of a class with a configuration."""

    kind: Any
    wanted: Any
    besides: tuple[str, ...]
    shapes: Any = None  # of the inputs that the original is built of, which completes what it is given

    def shortest(self, given: dict[str, Any], needed: frozenset[str]) -> dict[str, Any] | None:
        """Return the arguments, some of `given`; None if all of them make another object."""
        if not self._makes(given):
            return None
        made = _made(self.kind, {name: each for name, each in given.items() if name in needed})
        base = {} if made is None else _plain(configuration_of(made))
        kept = {name: each for name, each in given.items() if name in needed or base.get(name, base) != each}
        kept = kept if self._makes(kept) else dict(given)
        for name in [each for each in kept if each not in needed]:
            fewer = {each: value for each, value in kept.items() if each != name}
            kept = fewer if self._makes(fewer) else kept
        for name, value in kept.items():
            shorter = (each for each in _shorter(value) if self._makes({**kept, name: each}))
            kept[name] = next(shorter, value)
        return kept

    def _makes(self, given: Mapping[str, Any]) -> bool:
        made = _made(self.kind, given)
        if made is None:
            return False
        if self._config(made) != self.wanted and self.shapes:
            with suppress(Exception), stateless():  # whatever Keras raises, this part is not enough
                made.build_from_config(self.shapes)
        return bool(self._config(made) == self.wanted)

    def _config(self, made: Any) -> Any:
        return config_without(_plain(configuration_of(made)), self.besides)


def _shorter(value: Any) -> list[Any]:
    """Return shorter ways to write a list of equal items, and a number with the digits of 32 bits."""
    if isinstance(value, list) and value and all(each == value[0] for each in value):
        first = value[0]
        return [*_shorter(first), first] if isinstance(first, list | int) else []
    if isinstance(value, float):
        return [short_number(value)]
    return []


def short_number(value: float) -> float:
    """Return a number of 32 bits with as few digits as tell it from others of 32 bits, if it is one."""
    short = float(str(np.float32(value)))
    return short if float(np.float32(short)) == value else value


def _made(kind: Any, given: Mapping[str, Any]) -> Any:
    """Return what Keras makes of a part of a configuration, or None if it refuses."""
    with suppress(Exception):  # whatever Keras raises, this part is not enough
        return kind(**_object_of(given))
    with suppress(Exception):
        return kind.from_config(json.loads(json.dumps(given)))
    return None


def _object_of(config: Any) -> Any:
    """Return what a configuration describes; it stays whole, although Keras takes parts out of some."""
    return keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))


def _require_all_understood(given: Mapping[str, Any]) -> None:
    """Raise UnwritableError if Keras can make nothing of what describes one of some arguments."""
    for name, value in given.items():
        made = value
        with suppress(Exception):
            made = _object_of(value)
        _own_value(name, made)


def _plain(config: Any) -> Any:
    """Return a configuration made of what JSON knows; objects of Keras are serialized."""
    return json.loads(json.dumps(keras.saving.serialize_keras_object(config), default=_as_json))


def _as_json(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise UnwritableError(f"a value of type `{type(value).__name__}` has no notation")


def _public_name(kind: type, category: str) -> str:
    """Return the name that Keras has a class of its own under, which may not be that of the class; or ""."""
    names = [name for name, each in vars(_CLASSES[category]).items() if each is kind]
    return kind.__name__ if kind.__name__ in names else next(iter(names), "")


def _call(name: str, signature: Function, given: Mapping[str, Any], *, leading: bool) -> ir.Call:
    """Return a call; the arguments that are required are given by position."""
    values = {key: value_of(each, _argument(signature, key)) for key, each in given.items()}
    by_place = [each for each in signature.positional if each.required]
    if not by_place and leading and signature.positional and signature.positional[0].name != "axis":
        by_place = [signature.positional[0]]
    args = []
    for each in by_place:
        if each.name not in values:
            break
        args.append(values.pop(each.name))
    return ir.Call(name, tuple(args), values)


def _argument(signature: Function, name: str) -> Argument:
    found = signature.argument(name)
    assert found is not None
    return found


def value_of(config: Any, argument: Argument | None = None) -> ir.Value:  # noqa: PLR0911 one for each kind
    """Return a value of a configuration as the language has it.

    Args:
        argument: The argument that it is for, if its category is known.

    Raises:
        UnwritableError: The language has no notation for it.
    """
    if isinstance(config, list):
        return tuple(value_of(each, argument) for each in config)
    if not isinstance(config, dict):
        if isinstance(config, float) and not math.isfinite(config):
            raise UnwritableError(f"`{config}` has no notation")
        plain: ir.Value = config
        return plain
    if _is_policy(config):
        return str(_policy_by_name(config))
    if config.get("class_name") in {"__numpy__", "__tensor__"}:
        return value_of(config["config"]["value"])
    if config.get("class_name") == "function":
        made = _object_of(config)
        return ir.Call("python", (f"{module_of(made)}:{made.__name__}",))
    if "class_name" not in config:
        raise UnwritableError("a dictionary has no notation")
    made = _object_of(config)
    category = argument.category if argument is not None and argument.category else _category_of(made)
    made_call = call_of(made, category)
    word = snake_case(made_call.name)
    if (
        category == "initializer"
        and made_call == ir.Call(made_call.name)
        and word in signatures.words(category)
    ):
        return word
    own = config["config"].get("name") if isinstance(config.get("config"), dict) else None
    if category == "layer" and isinstance(own, str) and not is_automatic(own, type(made).__name__):
        return ir.Call(made_call.name, made_call.args, {**made_call.kwargs, "name": own})
    return made_call


def _is_policy(config: Mapping[str, Any]) -> bool:
    return str(config.get("class_name")).endswith("DTypePolicy") and "name" in config["config"]


def _policy_by_name(config: Any) -> Any:
    """Return the name of a policy, of which every layer can be made and described again, or what is none."""
    return config["config"]["name"] if isinstance(config, dict) and _is_policy(config) else config


def _of_class(kind: type) -> signatures.Category | None:
    for category in _CLASSES:
        if _public_name(kind, category):
            return category  # type: ignore[return-value] # the table has no other
    return None


def _category_of(made: Any) -> signatures.Category:
    found = _of_class(type(made))
    if found is None and isinstance(made, keras.Layer):
        return "layer"
    if found is None:
        raise UnwritableError(f"`{type(made).__name__}` is no object that the language knows")
    return found


def _own(made: Any, config: Mapping[str, Any], category: str, besides: tuple[str, ...]) -> ir.Call:
    """Return the call of a class of the user's, which is imported again by its module and name."""
    kind = type(made)
    if kind.__module__ in {"__main__", "builtins"} or "<" in kind.__qualname__:
        raise UnwritableError(f"`{kind.__name__}` is in no module that can be imported")
    if kind.__module__.startswith("keras.") and issubclass(kind, keras.Model):
        raise UnwritableError("it wraps a model, and the language wraps layers alone")
    public = any(_public_name(kind, category) for category in _CLASSES)
    if public or (kind.__module__.startswith("keras.") and not issubclass(kind, keras.Layer)):
        raise UnwritableError(f"the language has no {category} `{kind.__name__}`")
    left_out = {"name", "trainable", "dtype", "build_config", *besides}
    for each in inspect.signature(kind).parameters.values():
        if each.name in {*left_out, *config} or each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD}:
            continue
        if repr(getattr(made, each.name, each.empty)) != repr(each.default) or each.default is each.empty:
            raise UnwritableError(f"its `get_config` does not say what `{each.name}` is")
    usual = {"activity_regularizer": None, "autocast": True}.items()  # of layers without `__init__`
    said = [each for each in config.items() if each[0] not in left_out and each not in usual]
    given = {key: _own_value(key, each) for key, each in said}
    if category == "layer" and not made.trainable:
        given["trainable"] = False
    if category == "layer" and made.dtype_policy.name != _ambient()[0]:
        given["dtype"] = made.dtype_policy.name
    return ir.Call("python", (f"{module_of(kind)}:{kind.__qualname__}",), given)


def module_of(made: Any) -> str:
    """Return the name by which a spec imports the module of a class or function of the user's."""
    name = str(getattr(made, "__module__", ""))
    if not name.startswith(BESIDE_SPEC):
        return name
    return Path(str(sys.modules[name].__file__)).stem


def _own_value(name: str, value: Any) -> ir.Value:
    if isinstance(value, dict):
        raise UnwritableError(f"its argument `{name}` is an object of Python")
    if isinstance(value, list):
        return tuple(_own_value(name, each) for each in value)
    return short_number(value) if isinstance(value, float) else value


def is_automatic(name: str, class_name: str) -> bool:
    """Whether a name is one that Keras gives by itself: `conv2d_12`."""
    stem, _, number = name.rpartition("_")
    own = snake_case(class_name)
    return name == own or (stem == own and number.isdigit())


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{each}`" for each in names)
