"""What is shown of a spec: a line for each block, and its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.figures import plural
from dsl import ir
from dsl.shown import Summary

if TYPE_CHECKING:
    from collections.abc import Iterator


def summary(spec: ir.Spec) -> Summary:
    """Return what is shown of a spec."""
    span = spec.model.span
    return Summary(
        f"spec {spec.path}", tuple(_facts(spec)), source=span.source.text if span is not None else ""
    )


def _facts(spec: ir.Spec) -> Iterator[tuple[str, str]]:
    model = spec.model
    yield "model", f"{model.name}: {plural(len(model.bindings), 'binding')}"
    yield "inputs", ", ".join(_inputs(model))
    losses = [*(each.objective.call.name for each in model.loss), *("a tensor" for _ in model.tensor_terms)]
    yield "loss", " + ".join(losses) or "none"
    if model.metrics:
        yield "metrics", ", ".join(each.name for each in model.metrics)
    if spec.data is not None:
        splits = {"train": spec.data.train, "validation": spec.data.validation, "test": spec.data.test}
        yield (
            "data",
            ", ".join(f"{name} from {each.source.name}" for name, each in splits.items() if each is not None),
        )
    yield "devices", ", ".join(_devices(spec.devices)) or "those of this machine"
    yield "clones", _clones(spec.clones)
    if spec.place.rules:
        yield "place", ", ".join(" ".join(each.span.text.split()) for each in spec.place.rules if each.span)
    yield "update", f"{spec.update.mode}, {_optimizers(spec.update)}"
    yield "train", _length(spec.train)


def _inputs(model: ir.Model) -> Iterator[str]:
    for each in model.bindings:
        if isinstance(each.value, ir.Input):
            yield f"{each.name} {each.value.dtype} {list(each.value.shape or ())}"


def _devices(devices: ir.Devices) -> Iterator[str]:
    for kind, number in (("gpu", devices.gpu), ("cpu", devices.cpu)):
        if number is not None:
            yield f"{kind} = {number}"
    for job in devices.jobs:
        yield f"{plural(job.tasks, 'task')} of {job.name}" + (
            f" with {plural(job.gpu, 'GPU')}" if job.gpu else ""
        )


def _clones(clones: ir.Clones) -> str:
    number = str(clones.count) if clones.count is not None else "one on each device of their rule"
    if clones.global_batch is not None:
        return f"{number}, {plural(clones.global_batch, 'example')} of all"
    if isinstance(clones.batch, int):
        return f"{number}, {plural(clones.batch, 'example')} each"
    return f"{number}, {list(clones.batch)} examples" if clones.batch is not None else number


def _optimizers(update: ir.Update) -> str:
    return ", ".join(dict.fromkeys(each.optimizer.name for each in update.optimizers)) or "no optimizer"


def _length(train: ir.Train) -> str:
    if train.epochs is not None:
        return plural(train.epochs, "epoch")
    return plural(train.steps, "step") if train.steps is not None else "no steps"
