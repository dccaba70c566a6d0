"""Models of `keras.applications` with pretrained weights.

Keras downloads and reads the weights when it makes such a model. Here a model is made without them if only a
graph is built; a run reads them before its first step.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import keras
import tensorflow as tf

from compiler.graph.adapters.keras_private import file_utils
from compiler.graph.storage.hdf5_files import contents
from compiler.graph.storage.weight_files import readable
from compiler.graph.tower.network.keras_scope import own_names, replaced
from compiler.graph.tower.network.network import make_layer
from compiler.graph.tower.network.precision import dtype_policy
from compiler.graph.tower.trace import SEED_STATE, Tracer
from dsl.diagnostics import RunError
from dsl.errors import layers as errors
from dsl.files.regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from compiler.graph.compiled import CompiledGraph
    from compiler.model.graph import LayerNode


def read_pretrained(compiled: CompiledGraph, base: str, say: Callable[[str], None]) -> dict[str, np.ndarray]:
    """Return the pretrained weights of applications, by their names in `CompiledGraph.weights`.

    Raises:
        RunError: A file cannot be downloaded or read. The diagnostic names it.
    """
    found: dict[str, np.ndarray] = {}
    plan = compiled.plan
    for node in plan.model.layers:
        wanted = _wanted(node)
        if wanted is None:
            continue
        with tf.init_scope(), tf.device("CPU:0"), dtype_policy(plan.update.precision), own_names():
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
