"""`--set PATH=VALUE`, down into every place that has a name."""

from collections.abc import Callable
from pathlib import Path

import pytest

import grammar
from dsl import ir
from dsl.formats.render import human
from dsl.schema import BLOCKS

SPECS = Path(__file__).parent / "specs"


def changed(*overrides: tuple[str, str], spec: str = "whole") -> ir.Spec:
    """Return one of the specs with `overrides`."""
    return grammar.load(SPECS / f"{spec}.tfdeploy", overrides)


def test_attributes_are_replaced_and_added() -> None:
    """An attribute that is there is replaced, one that is not is added, and so is its block."""
    assert changed(("train.epochs", "7")).train.epochs == 7
    assert changed(("update.staleness", "2")).update.staleness == 2
    assert changed(("devices.soft_placement", "true"), spec="cluster").devices.soft_placement


def test_none_resets_every_attribute() -> None:
    """One that can be `none` is that, and every other one gets its default; in quotes it is a name."""
    for block, made in (("train", ir.Train()), ("clones", ir.Clones())):
        for row in BLOCKS[block].attributes:
            found = getattr(changed((f"{block}.{row.name}", "none")), block)
            plain = "none" if "none" in row.type.words else None
            optional = row.type.optional or "none" in row.type.words
            assert getattr(found, row.name) == (plain if optional else getattr(made, row.name)), row.name
    assert changed(("train.weights", "a.keras"), ("train.weights", " none ")).train.weights is None
    assert changed(("train.directory", '"none"')).train.directory == "none"
    assert changed(("train.epochs", "none"), ("train.steps", "3")).train.steps == 3
    data = changed(("data.test", "none")).data
    assert data.test is None


def test_a_value_takes_the_place_of_what_it_excludes() -> None:
    """The spec's `epochs` go if steps are given, its hosts if tasks are, and both at once are refused."""
    train = changed(("train.steps", "3")).train
    assert (train.steps, train.epochs) == (3, None)
    clones = changed(("clones.global_batch", "12")).clones
    assert (clones.batch, clones.global_batch) == (ir.Clones().batch, 12)
    (_, worker) = changed(("devices.worker.tasks", "3"), spec="cluster").devices.jobs
    assert (worker.tasks, worker.hosts) == (3, ())
    reading = grammar.read(SPECS / "whole.tfdeploy", [("train.epochs", "2"), ("train.steps", "3")])
    assert [each.code for each in reading.diagnostics] == ["TFD209"]


def test_one_optimizer_takes_the_place_of_groups() -> None:
    """`update.optimizer` replaces a block of optimizers for groups of weights."""
    update = changed(("update.optimizer", "SGD(0.5)"), spec="cluster").update
    assert (update.optimizer, update.groups) == (ir.Call("SGD", (0.5,)), ())


def test_the_last_one_wins() -> None:
    """Of two values for one path the later one counts, and a later path may lead into an earlier value."""
    spec = changed(("train.keep", "1"), ("train.keep", "9"))
    assert spec.train.keep == 9
    spec = changed(("update.optimizer", "Adam(0.5)"), ("update.optimizer.beta_1", "0.8"))
    assert spec.update.optimizer == ir.Call("Adam", (0.5,), {"beta_1": 0.8})


def test_constants_reach_everything_made_of_them() -> None:
    """A constant that is set changes all that is worked out from it."""
    spec = changed(("let.clones_wanted", "2 * 2"), ("let.side", "8"))
    assert (spec.clones.count, spec.devices.gpu) == (4, 4)
    assert spec.model.bindings[0].value == ir.Input("float32", (8, 8, 3))


def test_jobs_layers_and_metrics_are_reached_by_name() -> None:
    """Blocks with a name are reached through it."""
    assert changed(("devices.ps.tasks", "5"), spec="cluster").devices.jobs[0].tasks == 5
    ranged = changed(("devices.worker.tasks", "2..3"), spec="cluster").devices.jobs[1]
    assert (ranged.least, ranged.tasks) == (2, 3)
    stage = changed(("layer.stage.filters", "parameter(int, 64)")).layers[1]
    assert stage.parameters == (ir.LayerParameter("filters", "int", 64, has_default=True),)
    metric = changed(("model.metrics.error", "[size, scale] -> MeanSquaredError()")).model.metrics[1]
    assert metric.objective.call == ir.Call("MeanSquaredError")


@pytest.mark.parametrize(
    ("path", "value", "step"),
    [
        ("model.logits.logits.units", "5", ir.Call("Dense", (5,), {"name": "logits"})),
        ("model.logits.Dropout.rate", "0.5", ir.Call("Dropout", (0.5,))),
        ("model.logits.Dropout.seed", "3", ir.Call("Dropout", (0.25,), {"seed": 3})),
    ],
)
def test_steps_are_reached_by_function_or_name(path: str, value: str, step: ir.Call) -> None:
    """A step of a flow goes by its function or the name it was given, its arguments by theirs."""
    bindings = {each.name: each.value for each in changed((path, value)).model.bindings}
    flow = bindings["logits"]
    calls = [each.call for each in flow.steps]
    found = next(each for each in calls if each.name == step.name)
    assert found.args == step.args
    assert {name: found.kwargs[name] for name in step.kwargs} == step.kwargs


def test_strings_are_taken_literally() -> None:
    """Where a string is wanted, quotes, signs and white space are part of the value."""
    assert changed(("train.directory", 'runs/"a" = b')).train.directory == 'runs/"a" = b'
    data = changed(("data.train.tfrecord.path", "x-*.tfrecord")).data
    assert data.train.source.args == ("x-*.tfrecord",)


WRONG = (
    *("clones.cuont=4", "clone.count=4", "place.clones=cpu[0]", "clones=4", "devices.master.gpu=4"),
    *("update.optimizer.momentun=4", "let.new=4", "model.hidden.units=3", "train.keep=", "train.keep=1 2"),
    *("train.keep=many", "train.keep=0", "train.keep=a = 1", "train.keep=(1", "train.keep=$"),
    *('train.directory="runs', "train.directory='runs'", 'train.directory="a" b'),
)


def test_errors_point_into_the_command_line(golden: Callable[[str, str], None]) -> None:
    """What is wrong with a path or a value is shown where it was typed, with what a path may go on with."""
    said = []
    for each in WRONG:
        path, _, value = each.partition("=")
        reading = grammar.read(SPECS / "whole.tfdeploy", [(path, value)])
        said += human([found for found in reading.diagnostics if found.is_error])
    golden("set.txt", "\n".join(said))


@pytest.mark.parametrize(
    ("value", "directory"),
    [
        ("runs/new", "runs/new"),
        ('"runs/new"', "runs/new"),
        (' "runs/new" ', "runs/new"),
        ('"a \\"b\\""', 'a "b"'),
        ('5" disk', '5" disk'),
    ],
)
def test_a_string_may_keep_its_quotes(value: str, directory: str) -> None:
    """A shell may leave the quotes around a string, which then mean what they do in a spec."""
    assert changed(("train.directory", value)).train.directory == directory


def test_values_of_the_command_line_are_the_spans_of_what_they_set() -> None:
    """The IR points into the command line where it was set there."""
    span = changed(("clones.count", "3")).clones.span_of("count")
    assert (span.source.name, span.text) == ("--set", "3")
