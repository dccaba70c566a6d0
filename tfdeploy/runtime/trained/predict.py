"""Predictions for a file of examples, and the files that they are written to.

The file of examples replaces the source of a split, whose transforms are applied to the examples. It must
have the inputs that the prediction needs, and need not have targets.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import chain, permutations
from math import prod
from operator import mod
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias
from zipfile import ZipFile

import numpy as np
import tensorflow as tf
from attrs import evolve

from compiler.model.graph import InputNode
from compiler.report import GENERATOR
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors.layers import outputs_alike
from dsl.source import Span
from tfdeploy.data import Stream
from tfdeploy.data.arguments import bind
from tfdeploy.runtime.records.files import is_own_predictions, opened_output, require_free
from tfdeploy.runtime.session.data import open_stream, splits_of
from tfdeploy.runtime.session.faults import completed, located_examples
from tfdeploy.runtime.trained.trained import TrainedModel, require_splits

OMITTED = frozenset({"bucket", "shuffle", "take", "skip", "cache", "mixup"})
"""Transforms that choose, order or mix examples. They are left out: each gets its prediction, in order."""

Kind = Literal["csv", "npz"]


def predict(
    trained: TrainedModel,
    examples: Path,
    predictions: Path,
    warn: Callable[[Diagnostic], None],
    *,
    split: str | None = None,
    force: bool = False,
) -> int:
    """Write the outputs of a model for every example of a file.

    Args:
        examples: The `.csv` or `.npz` file with the examples.
        warn: Called with a warning if examples are the cause of outputs that are not finite.
        split: The split whose transforms are applied; by default `test`, else `validation`, else `train`.
        force: Whether `predictions` is replaced even if it has no predictions of the same outputs.

    Raises:
        SpecError: If the examples do not fit the inputs of the model.
        RunError: If the spec has no such split, or a file cannot be read or written.
    """
    compiled = trained.engine.compiled
    require_splits(trained.spec, () if split is None else (split,))
    needed = compiled.plan.model.prediction_inputs
    names = [each.name for each in compiled.plan.model.outputs]
    require_free(predictions, lambda path: is_own_predictions(path, names), force=force)
    stream = open_stream(compiled.plan, _split_over(trained.spec, examples, needed, split), needed)
    tensors = zip(names, _in_order(trained), strict=True)
    shapes = {name: tuple(each.shape.as_list()[1:]) for name, each in tensors}
    if predictions.suffix != ".npz":
        _require_own_columns(shapes, trained.spec.model.span)
    with (
        PredictionFile.open(predictions, shapes) as written,
        located_examples("prediction", trained.engine, stream, predicts=True),
    ):
        finite = True
        for arrays in _outputs(trained, stream):
            finite = finite and all(each.dtype.kind != "f" or np.isfinite(each).all() for each in arrays)
            written.add(dict(zip(names, arrays, strict=True)))
    strange = None if finite else stream.not_finite("predictions are not finite", warns=True)
    if strange is not None:
        warn(strange)
    return written.count


def _require_own_columns(shapes: Mapping[str, tuple[int | None, ...]], span: Span | None) -> None:
    """Raise RunError if columns of two outputs would have the same name, such as those of `a` and `a_0`."""
    for name, other in permutations(shapes, 2):
        numbers = len(re.findall(r"_\d+", other.removeprefix(name)))
        alike = re.fullmatch(rf"{re.escape(name)}(_\d+)+", other)
        if alike and numbers + len(shapes[other]) == len(shapes[name]):
            raise RunError(outputs_alike(other, name, span))


def _split_over(spec: ir.Spec, examples: Path, needed: Iterable[InputNode], split: str | None) -> ir.Split:
    """Return the split of the spec with `examples` as its source, without transforms of targets."""
    by_name = {str(name): each for name, each in splits_of(spec).items()}
    names_of_splits = ("test", "validation", "train") if split is None else (split,)
    pattern = next((by_name[each] for each in names_of_splits if each in by_name), None)
    kind: Kind = "npz" if examples.suffix == ".npz" else "csv"
    names = {each.name for each in needed}
    scalars = {each.name for each in needed if each.shape == ()}
    transforms: list[ir.Call] = []
    for call in reversed(pattern.transforms if pattern is not None else ()):
        kept = _of_interest(call, names)
        if kept is not None:
            transforms.insert(0, kept)
    padded = {name for call in transforms if call.name == "pad" for name in bind(call).texts("name")}
    columns = _columns(kind, pattern.source if pattern is not None else None, names, scalars | padded)
    source = ir.Call(kind, (str(examples.absolute()),), columns)
    return ir.Split("test", source, tuple(transforms))


def _of_interest(call: ir.Call, names: set[str]) -> ir.Call | None:
    """Return the part of a transform that concerns `names`, which become the names before it; else None."""
    if call.name in OMITTED:
        return None
    if call.name == "rename":
        kept = {new: old for new, old in call.kwargs.items() if new in names}
        names.difference_update(kept)
        names.update(str(old) for old in kept.values())
        return evolve(call, kwargs=kept) if kept else None
    if call.name == "window":  # the last windows, of which the future is not known, are of the most interest
        given = bind(call)
        return ir.Call(call.name, tuple(given[each] for each in ("size", "shift", "stride")), span=call.span)
    changed = bind(call)["name"]
    if isinstance(changed, tuple):
        kept_names = tuple(each for each in changed if each in names)
        others = {key: value for key, value in call.kwargs.items() if key != "name"}
        return evolve(call, args=(kept_names, *call.args[1:]), kwargs=others) if kept_names else None
    return call if changed in names else None


def _columns(kind: Kind, source: ir.Call | None, names: set[str], single: set[str]) -> dict[str, ir.Value]:
    """Return where in the file each tensor is: as in the spec's own source if that is of the same kind.

    Else an npz has it under its name, and a CSV file has a column of its name if it is in `single`, or
    columns `NAME_*`.
    """
    own = source.kwargs if source is not None and source.name == kind else {}
    if kind == "npz":
        return {name: own.get(name, name) for name in sorted(names)}
    header = {"header": own["header"]} if "header" in own else {}
    return {name: own.get(name, name if name in single else f"{name}_*") for name in sorted(names)} | header


def _in_order(trained: TrainedModel) -> list[Any]:
    """Return the tensors of the outputs in the order of the spec."""
    outputs = trained.engine.compiled.evaluation.outputs
    return list(outputs.values()) if isinstance(outputs, dict) else [outputs]


def _outputs(trained: TrainedModel, stream: Stream) -> Iterator[list[Any]]:
    """Yield the outputs of batch after batch, in the order of the examples."""
    engine = trained.engine
    evaluation = engine.compiled.evaluation
    pipe, size = evaluation.pipe, engine.compiled.plan.towers[0].batch

    def examples() -> Any:
        # Targets, which the pipe needs as well, are zeros.
        return completed(stream.batches(size, repeat=False, drop_remainder=False), pipe, stream)

    engine.session.run(pipe.attach(examples))
    run = engine.session.make_callable(_in_order(trained))
    engine.publish()
    while True:
        try:
            yield [np.asarray(each) for each in run()]
        except tf.errors.OutOfRangeError:
            return


Shape: TypeAlias = "tuple[int | None, ...]"

DIGITS = 9  # enough to distinguish any two float32 numbers
MORE_DIGITS = 17  # the same for float64


class PredictionFile:
    """A file of predictions that is being written.

    Attributes:
        shapes: The shape of each output without the batch axis, by its name; None for an unknown size.
    """

    def __init__(self, shapes: Mapping[str, Shape], file: IO[bytes]) -> None:
        self.shapes = shapes
        self.count = 0
        self._file = file
        self._kept: list[Mapping[str, Any]] = []

    @classmethod
    @contextmanager
    def open(cls, path: Path, shapes: Mapping[str, Shape]) -> Iterator[PredictionFile]:
        """Open `path` for writing, as `opened_output` does."""
        with opened_output(path) as file:
            kind = NpzPredictions if path.suffix == ".npz" else CsvPredictions
            predictions = kind(shapes, file)
            yield predictions
            predictions.finish()

    def add(self, outputs: Mapping[str, Any]) -> None:
        """Write the outputs of a batch, arrays by the names of the outputs."""
        plain = {name: _plain(each) for name, each in outputs.items()}
        self.count += len(next(iter(plain.values())))
        self.keep(plain)

    def keep(self, outputs: Mapping[str, Any]) -> None:
        """Keep the outputs of a batch until the end; their types are NumPy's own."""
        self._kept.append(outputs)

    def finish(self) -> None:
        """Write what has been kept."""
        raise NotImplementedError


def _plain(array: Any) -> Any:
    """Return an array of a type that NumPy has without others: texts for bytes, float32 for bfloat16."""
    if array.dtype == object:
        words = [each.decode("utf-8", "backslashreplace") for each in array.ravel()]
        return np.array(words, dtype=np.str_).reshape(array.shape)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


class CsvPredictions(PredictionFile):
    """A CSV file with a column for each number of each output, in the order of its elements.

    If batches can have different sizes, rows are written at the end, when the largest size is known.
    """

    def __init__(self, shapes: Mapping[str, Shape], file: IO[bytes]) -> None:
        super().__init__(shapes, file)
        self._text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._has_header = False

    def keep(self, outputs: Mapping[str, Any]) -> None:
        """Write the rows of a batch, or keep them if further batches may have other sizes."""
        if any(None in shape for shape in self.shapes.values()):
            super().keep(outputs)
        else:
            self._write(outputs)

    def _write(self, outputs: Mapping[str, Any]) -> None:
        if not self._has_header:
            self._write_header({name: each.shape[1:] for name, each in outputs.items()})
        tables = [each.reshape(len(each), prod(each.shape[1:])) for each in outputs.values()]
        styles = [_style(each.dtype) for each in tables for _ in range(each.shape[1])]
        parts = zip(*(each.tolist() for each in tables), strict=True)
        rows = (tuple(chain.from_iterable(each)) for each in parts)
        if "%s" in styles:
            self._writer.writerows(map(mod, styles, each) for each in rows)
        else:  # several times faster
            line = ",".join(styles) + "\n"
            self._text.writelines(line % each for each in rows)

    def _write_header(self, shapes: Mapping[str, Sequence[int]]) -> None:
        self._writer.writerow(column for name, shape in shapes.items() for column in _columns_of(name, shape))
        self._has_header = True

    def finish(self) -> None:
        """Write what has been kept, and the header of a table without rows."""
        for batch in _of_one_size(self._kept):
            self._write(batch)
        if not self._has_header and all(None not in shape for shape in self.shapes.values()):
            self._write_header(self.shapes)  # type: ignore[arg-type] # no size is None
        self._text.detach()


def _style(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "f":
        return f"%.{MORE_DIGITS if dtype == np.float64 else DIGITS}g"
    return "%d" if dtype.kind in "biu" else "%s"


def _columns_of(name: str, shape: Sequence[int]) -> list[str]:
    if not shape:
        return [name]
    places = (np.unravel_index(at, shape) for at in range(prod(shape)))
    return [f"{name}_{'_'.join(map(str, place))}" for place in places]


class NpzPredictions(PredictionFile):
    """A NumPy archive with an array for each output, under its name."""

    def finish(self) -> None:
        """Write the arrays."""
        batches = _of_one_size(self._kept)
        with ZipFile(self._file, "w") as archive:
            for name in self.shapes:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    whole = np.concatenate([each[name] for each in batches])
                    np.lib.format.write_array(member, whole, allow_pickle=False)
            archive.comment = GENERATOR.encode()


def _of_one_size(batches: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return batches of outputs with zeros behind those that are smaller, along each axis but the first."""
    names = batches[0].keys() if batches else ()
    largest = {name: np.max([each[name].shape for each in batches], axis=0) for name in names}
    return [{name: _filled(each[name], largest[name]) for name in names} for each in batches]


def _filled(array: Any, size: Any) -> Any:
    """Return an array with zeros, or empty texts, behind it up to a size along each axis but the first."""
    if array.shape[1:] == tuple(size[1:]):
        return array
    whole = np.zeros((len(array), *size[1:]), array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return whole
