"""From a Keras model to a spec with a file of weights, both proved before they are kept."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
from attrs import field, frozen

from compiler.graph.adapters.keras_private import compiled_with, layers_within
from compiler.graph.user_code import plain_message
from dsl.diagnostics import RunError, SpecError
from dsl.errors import layers as errors
from grammar import load
from tfdeploy.onramp.examples import fitted
from tfdeploy.onramp.found import Found
from tfdeploy.onramp.looking import look
from tfdeploy.onramp.objects import UnwritableModelError, own_objects
from tfdeploy.onramp.proof import DifferentError, Proof, prove
from tfdeploy.onramp.writing import draft, text_of
from tfdeploy.runtime.records.files import require_new, write_new

WEIGHTS = ".weights.h5"


@frozen
class Converted:
    """A spec that has been proved.

    Attributes:
        text: Its text.
        weights: The bytes of the file of weights that it names.
        files: The bytes of the vocabularies that it reads from files beside it, by their names.
        proof: What was compared.
    """

    text: str
    weights: bytes
    proof: Proof
    files: Mapping[str, bytes] = field(factory=dict)


def convert(
    model: Any,
    config: Mapping[str, Any] | None = None,
    *,
    source: str,
    stem: str,
    base: Path,
    devices: Mapping[str, int] | None = None,
    clones: int | None = None,
    weights: str | None = None,
    found: Found | None = None,
    folder: Path = Path(),
) -> Converted:
    """Return the spec of a Keras model.

    Args:
        model: The model, functional or sequential. It is not changed.
        config: What `compile` was given, as Keras serializes it; None to ask the model.
        source: What messages call the model.
        stem: The name of the spec, without its ending. The names of vocabularies beside it begin with it.
        base: The folder in which `python(...)` looks for modules first.
        devices: How many devices there are of each kind; None for those that are found.
        clones: How many clones there are; None for one on each device.
        weights: The file of weights that the spec names, beside it.
        found: The examples to train on; None to make examples up.
        folder: The folder of the spec, from which it names the examples.

    Raises:
        RunError: The language cannot say the model, or what it says differs from it.
    """
    given = compiled_with(model) if config is None else config
    named = own_objects([*layers_within(model), *keras.tree.flatten(dict(given))])
    try:
        with (
            tempfile.TemporaryDirectory() as apart,
            warnings.catch_warnings(),
            keras.saving.custom_object_scope(named),
        ):
            warnings.simplefilter("ignore")  # of Keras, about the model, which its author has seen
            made = draft(model, given, stem)
            examples = None
            if found is not None:
                training = made.training
                examples = fitted(found, made.inputs, training.labels, training.classes).block(folder)
            text = text_of(made, weights=weights, devices=devices or {}, clones=clones, examples=examples)
            path, file = Path(apart) / "spec.tfdeploy", Path(apart) / f"spec{WEIGHTS}"
            path.write_text(text, encoding="utf-8")
            files = {name: each.encode() for name, each in made.files.items()}
            for name, words in files.items():
                path.with_name(name).write_bytes(words)
            spec = load(path, allow_python=True)
            proof = prove(spec, made, model, given, base, file)
            return Converted(text, file.read_bytes(), proof, files)
    except UnwritableModelError as fault:
        reasons: dict[str, list[str]] = {}
        for name, reason in fault.faults.items():
            reasons.setdefault(reason, []).append(f"`{name}`")
        faults = tuple(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
        raise RunError(errors.model_unwritable(path=source, faults=faults)) from fault
    except DifferentError as fault:
        raise RunError(errors.model_differs(path=source, reason=str(fault))) from fault
    except (ValueError, TypeError, AttributeError, KeyError, NotImplementedError) as fault:  # of Keras
        reason = f"{type(fault).__name__}: {plain_message(fault)[:300]}"
        raise RunError(errors.model_differs(path=source, reason=reason)) from fault
    except SpecError as fault:
        first = fault.diagnostics[0]
        said = (f"{first.code}: {first.message}", *first.notes, *([first.help] if first.help else ()))
        raise RunError(errors.model_unwritable(path=source, faults=("; ".join(said),))) from fault


def from_keras(
    model: Any,
    *,
    data: str | os.PathLike[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
    devices: Mapping[str, int] | None = None,
    clones: int | None = None,
) -> str:
    """Return the text of a spec that says what a Keras model is and how it is trained.

    The spec has been compiled, and gives what the model gives, before and after a step of training.
    Vocabularies of many words are written into new files beside the weights, or in the current folder.

    Args:
        model: The model, functional or sequential. It is not changed.
        data: The examples to train on: files or a folder, as `init --data` takes them. The spec belongs into
            the current folder, from which it names them. None to make examples up.
        weights: A file to write the weights to, `NAME.weights.h5`, from which the spec then starts to train.
            It belongs beside the spec, and must not exist. None to start as Keras initializes them.
        devices: How many devices there are of each kind, such as `{"gpu": 2}`; None for those that are found.
        clones: How many clones there are; None for one on each device.

    Returns:
        The text.

    Raises:
        RunError: The language cannot say the model, or what it says differs from it, or the examples cannot
            be read or do not fit it, or the file of weights exists or cannot be written.
    """
    path = None if weights is None else Path(weights)
    require_new(() if path is None else (path,))
    made = convert(
        model,
        source=model.name,
        stem=model.name,
        base=Path(),
        devices=devices,
        clones=clones,
        weights=None if path is None else path.name,
        found=None if data is None else look(Path(data)),
    )
    folder = Path() if path is None else path.parent
    files = {folder / name: words for name, words in made.files.items()}
    if path is not None:
        files[path] = made.weights
    write_new(files)
    return made.text
