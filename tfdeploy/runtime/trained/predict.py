"""Predictions for a file of examples.

The file replaces the source of a split, whose transforms are applied to the examples. The file must have the
inputs that the prediction needs, and need not have targets.
"""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tensorflow as tf
from attrs import evolve

from dsl import ir
from dsl.diagnostics import RunError
from dsl.errors.layers import outputs_alike
from tfdeploy.data.transforms.arguments import bind
from tfdeploy.runtime.records.outputs import is_own_predictions, require_free
from tfdeploy.runtime.session.culprits import completed
from tfdeploy.runtime.session.data import open_stream, splits_of
from tfdeploy.runtime.session.faults import located_examples
from tfdeploy.runtime.trained.prediction_files import PredictionFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from compiler.model.graph import InputNode
    from dsl.diagnostics import Diagnostic
    from dsl.source import Span
    from tfdeploy.data import Stream
    from tfdeploy.runtime.trained.trained import TrainedModel

OMITTED = frozenset({"bucket", "shuffle", "take", "skip", "cache", "mixup"})
"""The transforms that do not change an example on its own, and so are left out of a prediction."""
"""Transforms that choose or order examples. They are left out: every row gets its prediction, in order."""

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
        trained: The model.
        examples: The `.csv` or `.npz` file with the examples.
        predictions: The `.csv` or `.npz` file to write.
        warn: Called with a warning if examples are the cause of outputs that are not finite.
        split: The split whose transforms are applied; by default `test`, else `validation`, else `train`.
        force: Whether `predictions` is replaced even if it has no predictions of the same outputs.

    Returns:
        The number of examples.

    Raises:
        SpecError: If the examples do not fit the inputs of the model.
        RunError: If a file cannot be read or written.
    """
    compiled = trained.engine.compiled
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
    return {name: own.get(name, name if name in single else f"{name}_*") for name in sorted(names)}


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
