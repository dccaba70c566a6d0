"""The Keras model in a file or a module. A file is data: nothing of it runs unless that is asked for."""

from __future__ import annotations

import io
import json
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import h5py
import keras
from attrs import frozen

from compiler.graph.adapters.keras_private import compiled_with
from compiler.graph.storage.weight_files import INSIDE, Stored, StrangeFileError, contents
from compiler.graph.storage.zip_files import SwellingError, ZipArchive
from compiler.graph.tower.network.keras_scope import own_names, stateless
from compiler.graph.user_code import load_function, plain_message, without_exit
from dsl.diagnostics import RunError
from dsl.errors import layers as errors
from dsl.files.regular import open_regular, system_reason
from dsl.schema import signatures
from tfdeploy.onramp.training import STEPS, objects_of

LARGEST = 1 << 26
"""The most bytes that the description of a model may have."""
MOST_TIMES = 8
"""How many times as many numbers as its layers need a file may have, for its optimizer."""
DEEPEST = 100
"""How deep the description of a model may be nested."""

_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, KeyError, StrangeFileError)
_PARTS = frozenset(
    {"Functional", "Sequential", "Model", "InputLayer", "function", "DTypePolicy", "CompileMetrics"}
)


@frozen
class Found:
    """A Keras model."""

    model: Any
    # What `compile` was given, as Keras serializes it; empty if the model is not compiled.
    config: Mapping[str, Any]


def read_model(source: str, *, allow_python: bool) -> Found:
    """Return the model that a file has, or that a module has or makes.

    Args:
        source: A `.keras` or `.h5` file, or `module:name`.
        allow_python: Whether classes that a file names may be imported.

    Raises:
        RunError: There is no such model, or it cannot be read.
    """
    path = Path(source)
    if path.suffix in {".keras", ".h5", ".hdf5"}:
        return _of_file(path, allow_python=allow_python)
    if path.suffix == ".py":
        raise _fault(source, f"name the model in it: `{path.stem}:NAME`")
    if ":" not in source or path.exists():
        raise _fault(source, "it is neither a `.keras` or `.h5` file nor `module:name`")
    try:
        made = load_function(source, Path(), None, lasting=True)
    except RunError as fault:
        told, module = fault.diagnostic, source.partition(":")[0]
        if told.code != "TFD714":
            raise
        reason = told.message.removeprefix(f"`{source}`: ").replace("its module", f"the module `{module}`")
        reason = reason.replace("no function", "no model and no function")
        raise _fault(source, f"{reason}{f'; {told.help}' if told.help else ''}") from fault
    try:
        with without_exit():
            model = made if isinstance(made, keras.Layer) else made()
    except Exception as fault:
        raise _fault(source, f"it raises {type(fault).__name__}: {plain_message(fault)}") from fault
    if not isinstance(model, keras.Model):
        raise _fault(source, f"it is a `{type(model).__name__}`, and no Keras model")
    return Found(model, compiled_with(model))


def _fault(source: str, reason: str) -> RunError:
    return RunError(errors.model_unreadable(path=source, reason=reason))


def _of_file(path: Path, *, allow_python: bool) -> Found:
    try:
        described, training, store = (_of_archive if path.suffix == ".keras" else _of_hdf5)(path)
    except _DAMAGED as fault:
        reason = str(fault) if isinstance(fault, StrangeFileError | SwellingError) else "it is damaged"
        raise _fault(str(path), reason) from fault
    except OSError as fault:
        reason = system_reason(fault) if fault.strerror else "it is damaged"
        raise _fault(str(path), reason) from fault
    foreign = dict(_foreign([described, training], path))
    if foreign and not allow_python:
        raise RunError(errors.model_has_code(path=str(path), names=tuple(foreign)))
    known = {}
    for registered, (module, name) in foreign.items():
        known[registered] = known[name] = load_function(f"{module}:{name}", Path(), None, of_model=True)
    try:
        with own_names(), stateless():
            shapes = [each.shape for each in _made(described, known).variables]
        wanted, there = sum(map(prod, shapes)), sum(prod(each) for each in store)
        if wanted > 2 * there + 1024 or there > MOST_TIMES * wanted + LARGEST:
            raise StrangeFileError(f"its layers need {wanted:,} numbers, and it has {there:,}")  # noqa: TRY301 said below
        with own_names(), keras.saving.custom_object_scope(known):
            if path.suffix == ".keras" and _has_assets(path):
                model = keras.saving.load_model(str(path), compile=False)
            else:
                model = _made(described, known)
                _load(model, path)
        with keras.saving.custom_object_scope(known):
            getters = {
                "loss": keras.losses.get,
                "metrics": keras.metrics.get,
                "weighted_metrics": keras.metrics.get,
                "optimizer": keras.optimizers.get,
            }
            training |= {key: objects_of(training.get(key), get) for key, get in getters.items()}
    except (RunError, MemoryError):
        raise
    except Exception as fault:
        raise _fault(str(path), f"Keras does not read it: {_reason(fault)}") from fault
    return Found(model, training)


def _reason(fault: Exception) -> str:
    """Return why Keras does not read a file: of several layers, the first with its reason."""
    said = str(fault)
    own = re.search(r"Could not locate function '([^']+)'", said)
    if own is not None:
        return f"the function `{own[1]}` is yours, and a file does not say where it is: give `module:name`"
    several, _, example = said.partition("Example error message for object ")
    if not several or not example:
        return plain_message(Exception(said.rpartition("Exception encountered: ")[2]))[:300]
    layer, _, reason = example.partition(" Target variable:")[0].partition(":\n\n")
    name = re.search(r"name=([^,]+)", layer)
    return f"`{name[1] if name else layer}`: {plain_message(Exception(reason))[:300]}"


def _json(text: bytes | str) -> Any:
    """Return what a text in JSON says. Raises StrangeFileError if it is none."""
    if len(text) > LARGEST:
        raise StrangeFileError(f"its description has {len(text):,} bytes, more than {LARGEST:,}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise StrangeFileError("its description is no JSON, or nested too deeply") from fault


def _described(text: bytes | str) -> dict[str, Any]:
    """Return the description of a model in JSON. Raises StrangeFileError if it is none."""
    found = _json(text)
    if not isinstance(found, dict) or not isinstance(found.get("config"), dict) or _depth(found) > DEEPEST:
        raise StrangeFileError("its description is not that of a model")
    if found.get("class_name") not in {"Functional", "Sequential", "Model"}:
        raise StrangeFileError(
            f"its model is a `{found.get('class_name')}`, whose layers are in Python code: give `module:name`"
        )
    return found


def _depth(found: Any) -> int:
    deepest, pending = 0, [(found, 1)]
    while pending:
        each, depth = pending.pop()
        deepest = max(deepest, depth)
        inside = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        pending += [(one, depth + 1) for one in inside]
    return deepest


def _of_archive(path: Path) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """Return the description of a model in a `.keras` file, of its training, and the shapes of its arrays."""
    with ZipArchive(path) as archive:
        if "config.json" not in archive.namelist() or INSIDE not in archive.namelist():
            raise StrangeFileError("it is an archive, but not one of Keras")
        if archive.getinfo("config.json").file_size > LARGEST:
            raise StrangeFileError(f"its description has more than {LARGEST:,} bytes")
        described = _described(archive.read("config.json"))
        inside = io.BytesIO(archive.read(INSIDE))
    with h5py.File(inside, "r") as store:
        arrays = contents(store).arrays
        steps = _steps(arrays)
    training = described.pop("compile_config", None)
    training = {**training, STEPS: steps} if isinstance(training, dict) else {}
    return described, training, [each.shape for each in arrays.values()]


def _steps(arrays: Mapping[str, Stored]) -> int:
    """Return how many steps the optimizer in an open file has made."""
    ends = "vars/0", "/iteration"  # in the newer format and in the older one
    counts = (each for path, each in arrays.items() if path.startswith("optimizer") and path.endswith(ends))
    return max((int(each.read()) for each in counts if not each.shape and each.kind in "iu"), default=0)


def _of_hdf5(path: Path) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """Return the same of a file in the older format of Keras."""
    with open_regular(path) as file, h5py.File(file, "r") as store:
        if "model_config" not in store.attrs:
            raise StrangeFileError("it has weights, but no model")
        arrays = contents(store).arrays
        shapes, steps = [each.shape for each in arrays.values()], _steps(arrays)
        described = _described(store.attrs["model_config"])
        text = store.attrs.get("training_config")
    training: Any = _json(text) if text else {}
    if not isinstance(training, dict):
        return described, {}, shapes
    optimizer = training.get("optimizer_config")
    return described, {**training, "optimizer": optimizer, STEPS: steps}, shapes


def _foreign(found: Any, path: Path) -> Iterator[tuple[str, tuple[str, str]]]:  # noqa: C901 one case for each kind
    """Yield what a description names that is not of Keras: its registered name, module and name."""
    pending = [found]
    while pending:
        each = pending.pop()
        if isinstance(each, list):
            pending += each
        if not isinstance(each, dict):
            continue
        pending += each.values()
        name, module = each.get("class_name"), each.get("module")
        if each.get("stateful") is True:
            fault = f"`{each.get('name')}` is `stateful`: a spec keeps nothing of a batch for the next one"
            raise RunError(errors.model_unwritable(path=str(path), faults=(fault,)))
        if name is None:
            continue
        if not isinstance(name, str) or not isinstance(module, str | None):
            raise StrangeFileError("its description is not that of a model")
        if name in {"Lambda", "__lambda__"}:
            fault = "`Lambda` is code in the file, which is never run: write operations, or a layer"
            raise RunError(errors.model_unwritable(path=str(path), faults=(fault,)))
        if name.startswith("__"):
            continue
        if module is None:
            known = name in _PARTS or any(signatures.find(kind, name) for kind in signatures.CATEGORIES)
        else:
            known = module in {"keras", "builtins"} or module.startswith("keras.")
        if name == "function":
            name = str(each.get("config"))
        if not known:
            yield str(each.get("registered_name") or name), (str(module), name.rpartition(">")[2])


def _made(described: dict[str, Any], known: Mapping[str, Any]) -> Any:
    """Return the model of a description, without its weights."""
    copied = json.loads(json.dumps(described))
    kind = keras.Sequential if copied["class_name"] == "Sequential" else keras.Model
    with keras.saving.custom_object_scope(dict(known)):
        if "module" in copied:
            made = keras.saving.deserialize_keras_object(copied, safe_mode=True)
        else:
            made = kind.from_config(copied["config"])
    if not made.built:
        raise ValueError("the shape of its inputs is not known")
    return made


def _has_assets(path: Path) -> bool:
    """Whether a file has vocabularies. Raises StrangeFileError if they are larger than those of a model."""
    with ZipArchive(path) as archive:
        sizes = [each.file_size for each in archive.infolist() if each.filename.startswith("assets/")]
    if sum(sizes) > LARGEST:
        raise StrangeFileError(f"its assets have {sum(sizes):,} bytes, more than {LARGEST:,}")
    return any(sizes)


def _load(model: Any, path: Path) -> None:
    """Give a model the weights of a file whose arrays have been looked at."""
    if path.suffix != ".keras":
        model.load_weights(str(path))
        return
    with tempfile.TemporaryDirectory() as folder, ZipArchive(path) as archive:
        copy = Path(folder) / INSIDE
        copy.write_bytes(archive.read(INSIDE))
        model.load_weights(str(copy))
