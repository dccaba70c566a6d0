"""What Jupyter and rich show of the records that `import tfdeploy` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import asdict

from compiler.figures import duration, plural, size
from compiler.kinds.kind_map import AnyMap, KindMap
from compiler.mapping.explanation import Explanation
from compiler.mapping.records import MapVariable, PlacementMap
from compiler.plan import Plan
from compiler.report.compare import Change, Comparison
from compiler.report.devices import Totals, device_label, device_totals
from compiler.report.diff_text import place_of
from compiler.report.terminal import device_rows, headline, time_line
from dsl import ir
from dsl.diagnostics import RunError
from dsl.shown import Summary, Table, summary_of
from tfdeploy.runtime.records.result import Result
from tfdeploy.runtime.show.runs import Curve, draw, picture, read_curves

# --- specs: a line for each block, and the text


def of_spec(spec: ir.Spec) -> Summary:
    """Return what is shown of a spec."""
    span = spec.model.span
    return Summary(
        f"spec {spec.path}", tuple(_blocks(spec)), source=span.source.text if span is not None else ""
    )


def _blocks(spec: ir.Spec) -> Iterator[tuple[str, str]]:
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
    optimizers = ", ".join(dict.fromkeys(each.optimizer.name for each in spec.update.optimizers))
    yield "update", f"{spec.update.mode}, {optimizers or 'no optimizer'}"
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


def _length(train: ir.Train) -> str:
    if train.epochs is not None:
        return plural(train.epochs, "epoch")
    return plural(train.steps, "step") if train.steps is not None else "no steps"


# --- plans: devices and towers


def of_plan(plan: Plan) -> Summary:
    """Return what is shown of a plan."""
    update = plan.spec.update
    devices = [each.ref for each in plan.topology.devices]
    facts = (
        ("model", f"{plan.spec.model.name}: {plural(len(plan.model.layers), 'layer')}"),
        ("devices", f"{device_label(devices)}{', emulated' if plan.emulate else ''}"),
        ("update", f"{update.mode}, {update.aggregate.name}, {update.reduce}"),
        ("batch", f"{plural(plan.global_batch, 'example')} in a step of all clones"),
    )
    rows = tuple(
        (
            str(each.number),
            ", ".join(device.ref for device in each.devices),
            str(each.batch),
            each.reason.text,
        )
        for each in plan.all_towers
    )
    towers = Table(("clone", "devices", "examples", "placed by"), rows, left=4)
    return Summary(f"plan of {plan.spec.path}", facts, (towers,))


# --- placement maps: devices with their bytes, and the largest variables


def of_map(placement: AnyMap) -> Summary:
    """Return what is shown of a placement map."""
    first, *others = headline(placement)
    head, *rows = device_rows(device_totals(placement).items())
    devices = Table(head, tuple(rows))
    largest = sorted(placement.variables_like, key=lambda each: -each.bytes)
    variables = Table(
        ("variable", "shape", "device", "placed by", "bytes"),
        tuple(_placed_row(each) for each in largest),
        left=4,
    )
    facts = tuple(("", line) for line in others)
    time = placement.time
    if time is not None:
        facts = (*facts, ("", time_line(placement.mode.update, time)))
    return Summary(f"placement of {first}", facts, (devices, variables))


def _placed_row(variable: MapVariable) -> tuple[str, ...]:
    rule = variable.rule
    where = f" (line {rule.line})" if rule.line is not None else ""
    devices = ", ".join(variable.copies or (variable.device,))
    return variable.name, str(list(variable.shape)), devices, f"{rule.text}{where}", size(variable.bytes)


# --- comparisons: what has moved, and the devices that differ


def of_comparison(comparison: Comparison) -> Summary:
    """Return what is shown of a comparison."""
    title = f"{comparison.spec_before.path} compared with {comparison.spec_after.path}"
    if not comparison.different:
        return Summary(f"{title}: no difference")
    moved = sum(each.moved for each in comparison.ops)
    appeared = sum(not each.before for each in comparison.ops)
    facts = [
        (
            "ops",
            f"{moved:,} moved, {appeared:,} appeared, {len(comparison.ops) - moved - appeared:,} vanished",
        ),
        ("links", f"{plural(len(comparison.links), 'link')} of devices with other traffic"),
    ]
    time = comparison.time
    if time is not None and time.before.seconds != time.after.seconds:
        facts.append(("step", f"{duration(time.before.seconds)} -> {duration(time.after.seconds)}"))
    before, after = asdict(comparison.mode_before), asdict(comparison.mode_after)
    facts += [(name, f"{was} -> {after[name]}") for name, was in before.items() if was != after[name]]
    largest = sorted(comparison.variables, key=lambda each: -each.bytes)
    variables = Table(
        ("variable or slot", "before", "after", "bytes"),
        tuple(_moved_row(each) for each in largest),
        left=3,
    )
    sides = [
        (when, each.ref, totals or Totals())
        for each in comparison.devices
        for when, totals in (("before", each.before), ("after", each.after))
    ]
    head, *rows = device_rows((ref, totals) for _, ref, totals in sides)
    told = tuple((when, *row) for (when, _, _), row in zip(sides, rows, strict=True))
    return Summary(title, tuple(facts), (variables, Table(("", *head), told, left=2)))


def _moved_row(change: Change) -> tuple[str, ...]:
    was, now = change.cuts
    return change.name, place_of(change.before, was), place_of(change.after, now), size(change.bytes)


# --- reasons for a place: the rule or default, and what it goes through


def of_explanation(explanation: Explanation) -> Summary:
    """Return what is shown of an explanation."""
    return Summary(f"{explanation.name} is on {explanation.requested}", tuple(_reasons(explanation)))


def _reasons(explanation: Explanation) -> Iterator[tuple[str, str]]:
    clone = f", clone {explanation.clone}" if explanation.clone is not None else ""
    yield "kind", f"{explanation.type}, {explanation.role}{clone}"
    for link in explanation.chain[1:]:
        yield "follows", f"the {link.kind} {link.name}"
    decider = explanation.decider
    if decider.rule is not None and decider.rule.span is not None:
        yield "placed by", _where(decider.rule)
    else:
        yield "placed by", f"the default {decider.text}: no rule matches it"
    for rule in explanation.beaten:
        yield "not by", f"{_where(rule)}, which matches too, and comes earlier"


def _where(rule: ir.Rule) -> str:
    span = rule.span
    if span is None:
        return str(rule)
    return f"{' '.join(span.text.split())} ({span.source.name}:{span.begin.line})"


# --- outcomes of runs: figures, and the curves of the history


MOST_CURVES = 3
"""The loss, and the first metrics."""

WIDTH, HEIGHT = 72, 10
"""The size of a drawing in characters."""


def of_result(result: Result) -> Summary:
    """Return what is shown of a result, without curves if its run directory is not there any more."""
    scored = {"test": result.test, "validation": result.validation}
    names = list(dict.fromkeys(name for each in scored.values() if each for name in each.metrics))
    rows = tuple(
        (
            split,
            f"{each.loss:.4f}",
            *(_figure(each.metrics.get(name)) for name in names),
            f"{each.examples:,}",
        )
        for split, each in scored.items()
        if each is not None
    )
    curves = dict(_curves(result))
    drawn = (draw(found, name, width=WIDTH, height=HEIGHT, color=False) for name, found in curves.items())
    return Summary(
        f"{result.status} at step {result.steps:,}",
        tuple(_figures(result)),
        (Table(("split", "loss", *names, "examples"), rows),),
        pictures=tuple(picture(found, score) for score, found in curves.items()),
        drawing="\n".join(drawn),
    )


def _figures(result: Result) -> Iterator[tuple[str, str]]:
    if result.loss is not None:
        scores = "".join(f", {name} {value:.4f}" for name, value in result.metrics.items())
        yield "last logged", f"loss {result.loss:.4f}{scores}"
    if result.best is not None:
        yield "best", f"{result.best.score} {result.best.value:.4f} at step {result.best.step:,}"
    if result.examples_per_second is not None:
        yield "speed", f"{result.examples_per_second:,.0f} examples/s"
    yield "time", f"{result.seconds.train:.1f} s of training, {result.seconds.compile:.1f} s for the graph"
    if result.resumed_from is not None:
        yield "went on from", plural(result.resumed_from, "step")
    yield "directory", result.directory
    if result.model is not None:
        yield "model", result.model


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _curves(result: Result) -> Iterator[tuple[str, list[Curve]]]:
    """Yield the curves of the loss and of the first metrics, by their names."""
    for score in ("loss", *result.metrics)[:MOST_CURVES]:
        try:
            yield score, read_curves([Path(result.directory)], score)
        except RunError:
            continue


# --- all of them


def register_summaries() -> None:
    """Let records show themselves; a second call changes nothing."""
    for record, summary in SUMMARIES.items():
        summary_of.register(record, summary)


SUMMARIES: dict[type, Callable[[Any], Summary]] = {
    ir.Spec: of_spec,
    Plan: of_plan,
    PlacementMap: of_map,
    KindMap: of_map,
    Comparison: of_comparison,
    Explanation: of_explanation,
    Result: of_result,
}
"""What is shown of each record."""
