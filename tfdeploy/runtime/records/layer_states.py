"""What layers have learnt from data before training: `layer_states.json` in the run directory."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

from attrs import field, frozen

from dsl.diagnostics import RunError
from dsl.errors import layers as errors
from dsl.files.regular import system_reason
from dsl.files.typed_json import OPTIONAL, BadRecord, read_record, to_json
from tfdeploy.runtime.records.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from compiler.model.graph import LayerNode
    from compiler.model.layer_state import State
    from dsl import ir

LIMIT = 1 << 30
"""The largest size of the file in bytes. A vocabulary of a million words takes some twenty megabytes."""


@frozen
class Numbers:
    """An array of numbers.

    Attributes:
        shape: The shape, which is empty for a single number.
        values: The numbers, with the last axis changing fastest.
    """

    shape: tuple[int, ...]
    values: tuple[float, ...]


@frozen
class LayerRecord:
    """What one layer has learnt.

    Attributes:
        settings: What it was learnt with: the layer and those before it, as text.
        words: Its vocabulary, if that has words.
        ids: Its vocabulary, if that has whole numbers.
        numbers: All else, by the names of arguments.
    """

    settings: str
    words: tuple[str, ...] | None = field(default=None, metadata={OPTIONAL: True})
    ids: tuple[int, ...] | None = field(default=None, metadata={OPTIONAL: True})
    numbers: Mapping[str, Numbers] = field(factory=dict)

    @classmethod
    def of(cls, state: State, settings: str) -> LayerRecord:
        """Return the record of a state.

        Args:
            state: The arguments that make up what the layer has learnt, by name.
            settings: What it was learnt with: the layer and those before it, as text.
        """
        vocabulary = state.get("vocabulary", ())
        has_words = isinstance(vocabulary, tuple) and isinstance(next(iter(vocabulary), 0), str)
        words = vocabulary if has_words else None
        ids = vocabulary if words is None and "vocabulary" in state else None
        numbers = {name: _flat(value) for name, value in state.items() if name != "vocabulary"}
        return cls(settings, words, ids, numbers)  # type: ignore[arg-type] # a vocabulary has words or numbers

    @property
    def state(self) -> State:
        """The state, as arguments of the layer by name."""
        vocabulary = self.words if self.words is not None else self.ids
        found: dict[str, ir.Value] = {} if vocabulary is None else {"vocabulary": vocabulary}
        return found | {name: _nested(each.values, each.shape) for name, each in self.numbers.items()}


@frozen
class LayerStates:
    """The content of the file.

    Attributes:
        layers: What each layer has learnt from the data, by its path in the model.
    """

    layers: Mapping[str, LayerRecord]


def _flat(value: ir.Value) -> Numbers:
    if not isinstance(value, tuple):
        return Numbers((), (float(value),))  # type: ignore[arg-type] # a number
    parts = [_flat(each) for each in value]
    return Numbers((len(parts), *parts[0].shape), tuple(number for each in parts for number in each.values))


def _nested(values: tuple[float, ...], shape: tuple[int, ...]) -> ir.Value:
    if not shape:
        return values[0]
    size = prod(shape[1:])
    return tuple(_nested(values[at * size : (at + 1) * size], shape[1:]) for at in range(shape[0]))


def write_layer_states(path: Path, records: Mapping[str, LayerRecord]) -> None:
    """Replace the file as a whole.

    Args:
        path: The path of `layer_states.json`.
        records: What the layers have learnt, by their paths.

    Raises:
        RunError: The file cannot be written.
    """
    write_atomically(path, to_json(LayerStates(records), indent=1) + "\n")


def read_layer_states(path: Path, wanted: Mapping[str, tuple[LayerNode, str]]) -> Mapping[str, LayerRecord]:
    """Return what layers have learnt.

    Args:
        path: The file.
        wanted: The layers that have learnt something, by their paths, each with its settings.

    Raises:
        RunError: If the file cannot be read or is damaged, or a layer is missing or had other settings.
    """
    name, (node, _) = next(iter(wanted.items()))
    try:
        found = read_record(path, LayerStates, LIMIT).layers
    except (BadRecord, OSError) as fault:
        reason = system_reason(fault) if isinstance(fault, OSError) else f"the file {fault}"
        raise RunError(
            errors.state_does_not_fit(node.span, path=str(path), layer=name, reason=reason)
        ) from fault
    for name, (node, settings) in wanted.items():
        wrong = _misfit(found.get(name), settings)
        if wrong is not None:
            raise RunError(errors.state_does_not_fit(node.span, path=str(path), layer=name, reason=wrong))
    return {name: found[name] for name in wanted}


def _misfit(record: LayerRecord | None, settings: str) -> str | None:
    """Return what is wrong with the record of a layer, or None."""
    if record is None or any(len(each.values) != prod(each.shape) for each in record.numbers.values()):
        return "its entry is missing or damaged"
    if record.settings != settings:
        return f"it was `{record.settings}`, and is `{settings}` now"
    return None
