"""The benchmarks measure like with like, and say what they have measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

import grammar
from benchmarks.figures import (
    RESIZED_AS_FLOATS,
    ClusterRates,
    Figures,
    Launch,
    ManyClones,
    Pipelining,
    Reading,
    Recomputing,
    ServerMemory,
)
from benchmarks.launches import BASELINE, SPEC
from benchmarks.models import PROBLEMS, ROWS, TABLE, spec_text
from benchmarks.race.run import Race, run_race
from benchmarks.report.page import write_page
from benchmarks.report.results import Machine, Results, Spread, read_results, with_races
from benchmarks.report.targets import TARGETS
from benchmarks.tracking import TRACKERS, measure
from compiler.graph.tower.trace import Tracer
from compiler.pipeline import make_plan

MACHINE = Machine("2026-01-31", 2, 24, "3.11.7", "2.21.0", "3.15.1")
RESULTS = Results(
    MACHINE,
    races=(
        Figures("ours", "lenet", 4, 0.5, 4.0, (40.0, 42.0), (0.05, 0.05), 2**30),
        Figures("mirrored", "lenet", 4, 0.5, 6.0, (20.0, 20.0), (0.09, 0.09), 2**31),
    ),
    builds=(
        Figures("ours", "resnet50", 8, 2.0, graph_ops=12_000, trace=0.8),
        Figures("tutorial", "resnet50", 8, 20.0, graph_ops=70_000),
    ),
    clusters=(ClusterRates("table", [90.0, 96.0, 90.0], [60.0, 60.0, 50.0], "2026-01-30"),),
    readings=(
        Reading("CSV", "ours", "2026-02-01", (200.0, 100.0), (0.01, 0.01)),
        Reading("CSV", "by hand", "2026-02-01", (100.0, 125.0), (0.02, 0.02)),
        Reading("CSV", RESIZED_AS_FLOATS, "2026-02-01", (400.0, 200.0), (0.01, 0.01)),
        Reading("CSV", "make_csv_dataset", "2026-02-01", (50.0, 50.0), (0.04, 0.04)),
    ),
    replicas=(
        ClusterRates(
            "mlp",
            [30.0, 40.0, 50.0],
            [40.0, 40.0, 40.0],
            "2026-01-31",
            "add_n",
            "MultiWorkerMirroredStrategy",
        ),
    ),
    servers=(ServerMemory("SGD(0.1)", 1 << 30, 11 << 26, 9 << 27, "2026-01-29"),),
    many=(
        ManyClones("add_n", 6.14, 0.69e9, "2026-02-02"),
        ManyClones("tree", 14.6, 0.9e9, "2026-02-02"),
    ),
    recomputings=(
        Recomputing(
            "transformer", "none", (0.5, 0.5), "2026-01-28", 900 << 20, 800 << 20, 792 << 20, 700 << 20
        ),
        Recomputing(
            "transformer", "memory", (0.4, 0.4), "2026-01-28", 300 << 20, 200 << 20, 210 << 20, 175 << 20
        ),
        Recomputing("transformer", "keras_remat", (), "2026-01-28"),
    ),
    pipelinings=(
        Pipelining("none", (1.0, 1.2), "2026-02-03", 30 << 20, 33 << 20, 0.8),
        Pipelining("shared", (1.3, 1.5), "2026-02-03", 30 << 20, 33 << 20, 0.6),
        Pipelining("one_f_one_b", (1.7, 1.98), "2026-02-03", 60 << 20, 63 << 20, 0.5, 0.11),
    ),
    launches=(Launch(BASELINE, (0.1, 0.1)), Launch(f"check {SPEC}", (0.14, 0.16))),
)


@pytest.mark.family(every=4)
@pytest.mark.parametrize("name", ["lenet", "mlp", "deep", "transformer", "embedding"])
def test_both_forms_of_a_model_have_the_same_weights(name: str) -> None:
    """The spec and the Keras code of a model come to weights of the same shapes."""
    problem = PROBLEMS[name]
    reading = grammar.read("benchmark.tfdeploy", text=spec_text(problem, 1))
    assert reading.spec is not None
    tracer = Tracer(make_plan(reading.spec).model, seed=1)
    tracer.trace(problem.batch, training=True)
    keras_model = problem.keras_model()
    assert sorted(each.shape for each in tracer.weights.values()) == sorted(
        tuple(each.shape) for each in keras_model.weights
    )


def test_ratios_are_taken_turn_by_turn_and_round_by_round() -> None:
    """Above 1 we are better: more steps per second, fewer seconds, fewer bytes."""
    assert RESULTS.speed("lenet", 4, "mirrored") == Spread(2.0, 2.05, 2.1)
    assert RESULTS.saving("lenet", 4, "mirrored", lambda each: each.peak_memory) == Spread(2.0, 2.0, 2.0)
    assert RESULTS.speed("lenet", 4, "fit") is None


def test_targets_are_read_from_results_that_have_them() -> None:
    """What was not measured has no figure; what was is held against its bound, from the right side."""
    found = [(each, each.measured(RESULTS)) for each in TARGETS]
    met = [
        (each.bound, round(spread.median, 6), each.is_met(spread))
        for each, spread in found
        if spread is not None
    ]
    held = (1.15, 1.125, True)
    assert met[:3] == [(5, 10.0, True), (1.8, 2.05, True), (1.5, 1.6, True)]
    memory, piped = [(0.35, 0.25, True), (1.35, 1.25, True)], (1.6, 1.675, True)
    assert met[3:] == [held, *memory, piped, (0.95, 1.4, True), (2.5, 1.5, True)]


def test_the_page_states_what_the_data_say(tmp_path: Path) -> None:
    """The page has date, machine and versions, and the data beside it give the same results again."""
    write_page(RESULTS, tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    assert "Measured on 2026-01-31, on 2 cores and 24 GiB of memory, with TensorFlow 2.21.0" in text
    assert "| lenet | 4 | mirrored | 2.05 (2.00 to 2.10) | 1.50 | 2.00 |" in text
    assert "| resnet50 | 8 | 2.00 | 12,000 | 20.00 | 70,000 | 10.0 |" in text
    assert "| table | async | `ParameterServerStrategy` | 90 | 60 | 1.60 (1.50 to 1.80) |" in text
    assert "measures this part alone. Measured on 2026-01-30." in text
    assert "| mlp | `add_n` | `MultiWorkerMirroredStrategy` | 40 | 40 | 1.00 (0.75 to 1.25) |" in text
    assert "| `SGD(0.1)` | 1,024 MiB | 0.69 | 1.12 |" in text
    less = "tfdeploy, `recompute = memory(...)`"
    assert f"| transformer | {less} | 1.25 | 300 MiB, 0.33 | 200 MiB | 1.05 | 175 MiB, 0.25 |" in text
    assert '| transformer | Keras, `RematScope("full")` | fails |  |  |  |  |' in text
    assert "| CSV | ours | 150 |  |  |" in text
    assert "| CSV | by hand | 112 | 1.40 (0.80 to 2.00) | 0.50 |" in text
    assert "| `accumulate` alone | 1.00 | 0.88 |  | 30 MiB | 1.10 |" in text
    assert "| `accumulate` alone, with both threads | 1.27 (1.25 to 1.30) | 0.84 |  | 30 MiB | 1.10 |" in text
    assert "| `schedule = one_f_one_b` | 1.68 (1.65 to 1.70) | 0.92 | 11% | 60 MiB | 1.05 |" in text
    assert "| add_n | 6 | 0.7 GB |  |  |" in text
    assert "| tree | 15 | 0.9 GB | 73 | 5.3 GB |" in text
    assert Results.from_json((tmp_path / "benchmarks.json").read_text()) == RESULTS
    assert (tmp_path / "benchmarks.svg").read_text().startswith("<svg ")


def test_races_that_are_run_again_take_their_place(tmp_path: Path) -> None:
    """All figures of the same race go, those of others stay, and the page has the day."""
    again = Figures("ours", "lenet", 4, 0.5, 2.0, (44.0,), (0.05,), 2**29, date="2026-02-01")
    races = with_races(RESULTS.races, [again, evolve(again, model="mlp")])
    assert [each for each in races if (each.model, each.towers) == ("lenet", 4)] == [again]
    assert [each for each in races if each.model != "mlp" and each != again] == [
        each for each in RESULTS.races if (each.model, each.towers) != ("lenet", 4)
    ]
    assert races[-1].model == "mlp"
    mirrored = evolve(again, contender="mirrored", rates=(22.0,))
    write_page(evolve(RESULTS, races=with_races(RESULTS.races, [again, mirrored])), tmp_path)
    text = (tmp_path / "benchmarks.md").read_text()
    assert "| lenet | 4 | mirrored | 2.00 |" in text
    assert "Measured again on 2026-02-01, by the number of towers: lenet with 4." in text
    assert read_results(tmp_path).raced("lenet", 4, "ours") == [again]
    assert read_results(tmp_path / "nothing").races == ()


def test_the_page_states_what_there_is_to_reach(tmp_path: Path) -> None:
    """Where the limit was raced too, the page says what it came to against the strategy."""
    single = Figures("single", "lenet", 4, 0.5, 4.0, (44.0, 44.0), (0.05, 0.05), 2**30)
    write_page(evolve(RESULTS, races=(*RESULTS.races, single)), tmp_path)
    assert "made 2.20 times the steps of\n`MirroredStrategy`" in (tmp_path / "benchmarks.md").read_text()


@pytest.mark.full
def test_readers_give_the_same_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raced reads the same files into the same tensors: examples differ in their order alone."""
    import tensorflow as tf

    from benchmarks.reading import readers
    from benchmarks.reading.readers import FILES

    monkeypatch.setattr(readers, "PHOTOS", 64)  # two passes are four batches
    for name, files in FILES.items():
        files.write(tmp_path)
        found = {}
        for reader, make in files.readers(tmp_path).items():
            batches = list(make().take(4))
            told = "mask" if "mask" in name else "label"
            assert {key: each.dtype for key, each in batches[0].items()} == {
                "image": tf.float32,
                told: tf.int32,
            }, reader
            found[reader] = [tuple(batches[0][key].shape) for key in ("image", told)]
            mean = float(tf.reduce_mean([tf.reduce_mean(each["image"]) for each in batches]))
            found[reader].append(round(mean, 1 if "JPEG" in name else 0))
        assert len({tuple(map(str, each)) for each in found.values()}) == 1, (name, found)


@pytest.mark.full
def test_contenders_make_steps_in_turn() -> None:
    """Each contender starts, makes its turns and tells its peak memory; one that fails is left out."""
    race = Race("mlp", 2, ("ours", "tutorial", "nobody"), turns=2, seconds=0.05)
    found = run_race(race)
    assert [each.contender for each in found] == ["ours", "tutorial"]
    for each in found:
        assert len(each.rates) == len(each.cpu) == 2
        assert each.first_step > each.build > 0
        assert min(each.rates) > 0
        assert each.peak_memory > 2**27


def test_numbers_of_a_table_follow_zipfs_law() -> None:
    """Few rows are asked for often: the each of the ten most frequent ones makes up a hundredth of all."""
    import numpy as np

    numbers, labels = TABLE.arrays(512)
    assert (numbers.shape, numbers.dtype, labels.shape) == ((512, 32), np.int32, (512,))
    assert 0 <= numbers.min() <= numbers.max() < ROWS
    _, counts = np.unique(numbers, return_counts=True)
    assert sorted(counts)[-10:][0] > len(numbers.ravel()) / 100
    assert len(counts) > 1000


@pytest.mark.full
def test_a_run_with_a_tracker_is_measured() -> None:
    """The run ends although its tracker is gone, and the times are those of the whole run."""
    found = measure(TRACKERS["gone"], 2)
    assert found.training > 0
    assert found.processor > 0
    assert found.ended >= 0


def test_the_specs_of_deep_transformers_are_right() -> None:
    """Those that are cut into stages, and those that are recomputed, have no fault."""
    import grammar
    from benchmarks import pipelining, recomputing

    tail = recomputing.TAIL.format(batch=4, more="recompute = none")
    for text in (pipelining.SPEC, recomputing.TRANSFORMER + tail):
        assert grammar.read("deep.tfdeploy", text=text).spec is not None
