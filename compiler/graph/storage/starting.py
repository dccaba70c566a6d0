"""The weights from which training starts, of all files that a spec names.

Models of `keras.applications` get pretrained weights: Keras downloads and reads them when it makes such a
model. Here a model is made without them if only a graph is built; a run reads them before its first step.

Parts of a model get weights from files that Keras has written for the part, or for a larger model. The arrays
of the part are found in the file by the names of their layers. A file of the whole model has them under their
full names. A file of the part alone has names that begin below the part. Arrays that are not of the part are
not read but named, so a file may have more, such as the last layers of another model. A model inside the
model (`python(...)`, `applications.*`) is also found by its structure, as Keras does it, if the file has that
model and nothing else. Names that Keras has chosen do not matter then.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.keras_private import file_utils
from compiler.graph.compiled import CompiledGraph
from compiler.graph.storage.weight_files import (
    Keys,
    Layout,
    beyond,
    contents,
    faults_of,
    layout_of,
    open_arrays,
    read_weights,
    readable,
    values_of,
)
from compiler.graph.tower.network.keras_scope import own_names, replaced
from compiler.graph.tower.network.network import make_layer
from compiler.graph.tower.network.precision import keras_settings
from compiler.graph.tower.trace import SEED_STATE, Tracer
from compiler.model.graph import LayerNode, Start
from dsl.diagnostics import RunError
from dsl.errors import layers as errors
from dsl.errors.wording import first_of
from dsl.files.regular import open_regular


def starting_weights(
    compiled: CompiledGraph, base: Path, say: Callable[[str], None]
) -> dict[str, np.ndarray]:
    """Return the values of all weights that start from files, by their names in `CompiledGraph.weights`.

    What `train` says holds over what a step of the model says, and its block `weights` over its attribute.

    Args:
        say: Called with a line of text before a file is downloaded, and about what is not used of a file.
    """
    plan, train = compiled.plan, compiled.plan.spec.train
    found = read_pretrained(compiled, str(base), say)
    found |= read_parts(compiled, plan.model.starts, say, base=str(base))
    rules = [Start(each.pattern, each.file, each.span) for each in train.part_weights]
    ruled = read_parts(compiled, rules, say, base=str(base))
    if train.weights is not None:
        path, span = base / train.weights, train.span_of("weights")
        found |= read_weights(compiled, path, span, base=str(base), elsewhere={*found, *ruled})
    return found | ruled


def read_pretrained(compiled: CompiledGraph, base: str, say: Callable[[str], None]) -> dict[str, np.ndarray]:
    """Return the pretrained weights of applications, by their names in `CompiledGraph.weights`."""
    found: dict[str, np.ndarray] = {}
    plan = compiled.plan
    for node in plan.model.layers:
        wanted = _wanted(node)
        if wanted is None:
            continue
        with tf.init_scope(), tf.device("CPU:0"), keras_settings(plan.update.precision), own_names():
            with _fetching(node, say), _sound(Path(base) / wanted, node):
                layer = make_layer(node, base, read=True)
            tracer = Tracer(plan.model, compiled.seed)
            for variable in layer.variables:
                if variable.name != SEED_STATE:
                    name = tracer.register(variable, node, layer).name
                    found[name] = variable.numpy()
    return {name: value for name, value in found.items() if name in compiled.weights}


def _wanted(node: LayerNode) -> str | None:
    """Return the argument `weights` of the model of a step, or None if it has none."""
    if node.kind != "application":
        return None
    signature = inspect.signature(getattr(keras.applications, node.call.name.rpartition(".")[2]))
    given = signature.bind_partial(*node.call.args, **node.call.kwargs)
    given.apply_defaults()
    wanted = given.arguments.get("weights")
    return None if wanted is None else str(wanted)


@contextmanager
def _fetching(node: LayerNode, say: Callable[[str], None]) -> Iterator[None]:
    """Report the files that Keras downloads inside, and raise RunError if that fails."""
    real = file_utils.get_file

    def get_file(fname: str, origin: str, **options: Any) -> str:
        target = Path(file_utils.config.keras_home()) / str(options.get("cache_subdir", "datasets")) / fname
        if not target.exists():
            say(f"fetching the weights of `{node.call.name}`: {origin}")
        try:
            with redirect_stdout(sys.stderr):  # Keras shows its progress there
                return str(real(fname, origin, **options))
        except Exception as fault:  # Keras raises no other kind
            name, span = node.call.name, node.call.span
            raise RunError(
                errors.weights_not_fetched(
                    span, application=name, origin=origin, target=str(target), reason=_reason(fault)
                )
            ) from fault

    with replaced(file_utils, "get_file", get_file):
        yield


def _reason(fault: Exception) -> str:
    """Return why Keras could not download a file, which its message says after the address."""
    return str(fault).rpartition(" -- ")[2] or type(fault).__name__


@contextmanager
def _sound(path: Path, node: LayerNode) -> Iterator[None]:
    """Refuse a user's file with contents that files of weights do not have, before Keras reads it."""
    if path.is_file():
        with readable(path, node.call.span), open_regular(path) as file, h5py.File(file, "r") as store:
            contents(store)
    yield


def read_parts(
    compiled: CompiledGraph, starts: Sequence[Start], say: Callable[[str], None], *, base: str
) -> dict[str, np.ndarray]:
    """Return the values of the weights of parts, by their names in `CompiledGraph.weights`.

    Args:
        starts: The parts and their files. A later one holds over an earlier one.
        say: Called with a line of text about what each file has beyond its parts.

    Raises:
        RunError: A file cannot be read, or lacks a weight of its part, or has it in another shape.
    """
    if not starts:
        return {}
    layout = layout_of(compiled, base)
    found: dict[str, np.ndarray] = {}
    left: dict[str, list[str]] = {}
    for start in starts:
        values, unread = _read(compiled, layout, start, Path(base) / start.file)
        found |= values
        left[start.file] = [each for each in left.get(start.file, unread) if each in unread]
    for file, unread in left.items():
        if unread:
            named = "; ".join(first_of(unread, errors.MOST_FAULTS))
            say(f"`{file}` has more weights, which are not used: {named}")
    return found


def _read(
    compiled: CompiledGraph, layout: Layout, start: Start, path: Path
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the values of the weights of a part, and what its file has beyond them."""
    part = _Part.of(compiled, layout, start.pattern)
    with open_arrays(path, start.span) as arrays:
        structure = part.structure()
        places = _places(structure or {})
        if structure and places <= arrays.by_path.keys() and not beyond(arrays.by_path, places):
            ways = [(structure, arrays.by_path)]
        else:
            ways = [(part.keys(below), arrays.by_key) for below in range(part.depth + 1)]
        faults = [sorted(faults_of(compiled, wanted, found)) for wanted, found in ways]
        for (wanted, found), wrong in zip(ways, faults, strict=True):
            if not wrong:
                return values_of(compiled, wanted, found), beyond(found, _places(wanted))
    fewest = min(faults, key=len)
    raise RunError(errors.part_does_not_fit(start.span, path=str(path), pattern=start.pattern, faults=fewest))


def _places(wanted: Mapping[str, Keys]) -> set[str]:
    return {each for keys in wanted.values() for each in keys}


@frozen
class _Part:
    """The weights of a part."""

    layout: Layout  # where a file of the whole model has its weights
    nodes: Mapping[str, LayerNode]  # the layer of each weight of the part

    @classmethod
    def of(cls, compiled: CompiledGraph, layout: Layout, pattern: str) -> _Part:
        """Return the part of all weights that match a glob."""
        nodes = {
            name: node
            for node in compiled.plan.model.layers
            for name in layout.keys
            if name.startswith(f"{node.path}/") and fnmatchcase(name, pattern)
        }
        return cls(layout, nodes)

    @property
    def depth(self) -> int:
        """The number of names at the beginning of their paths that all layers of the part share."""
        paths = [node.path.split("/") for node in self.nodes.values()]
        shared = takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
        return sum(1 for _ in shared)

    def structure(self) -> dict[str, Keys] | None:
        """Return the paths of each weight in a file of the part alone, if the part is one model of Keras."""
        node, *others = {each.path: each for each in self.nodes.values()}.values()
        if others or node.kind not in {"python", "application"}:
            return None
        return {name: tuple(each.split("/", 2)[2] for each in self.layout.paths[name]) for name in self.nodes}

    def keys(self, below: int) -> dict[str, Keys]:
        """Return the keys of each weight without the first `below` names of the path of its layer."""
        found = {}
        for name, node in self.nodes.items():
            start = "_".join(node.path.split("/")[below:])
            keys = (each.removeprefix(node.keras_name) for each in self.layout.keys[name])
            found[name] = tuple((start + each).removeprefix("/") for each in keys)
        return found
