"""The combinations that `verify` compares, and those that are left out because a weight is needed whole."""

from collections.abc import Callable, Iterable, Iterator

import pytest
from attrs import evolve

from dsl import ir
from tests.support import classifier, spec_of
from tfdeploy.runtime.verify.cases import (
    AVERAGE_EVERY,
    CLUSTERS,
    GLOBAL_BATCH,
    LAUNCHED,
    LAYOUTS,
    SLOTS_SHARDED,
    SPLITS,
    Case,
    aspects_of,
    every_case,
    launched_cases,
    launched_spec,
    sample,
    select_cases,
)
from tfdeploy.runtime.verify.compare import plain_of
from tfdeploy.runtime.verify.session import Options, Verification

ADD = ir.Call("add_n")


def test_a_sample_has_every_value_for_its_numbers_of_clones() -> None:
    """It is much smaller, and each aspect of a mode has all values that it has for these clones."""
    cases = [each for each in every_case(100) if each.clones in {2, 3}]
    few = sample(list(every_case(100)))
    assert {each.clones for each in few} <= {2, 3}
    assert len(few) < len(cases) / 2
    assert {value for each in few for value in aspects_of(each)} == {
        value for each in cases for value in aspects_of(each)
    }


def test_all_clones_together_have_the_global_batch() -> None:
    """One batch for each clone, equal and not; for real processes it is as much in two halves."""
    for clones, splits in SPLITS.items():
        assert {len(each) for each in splits} == {clones}
        assert {sum(each) for each in splits} == {GLOBAL_BATCH}
        assert [len(set(each)) == 1 for each in splits] == [True, clones == 1]
    for workers, splits in CLUSTERS.items():
        assert {len(each) % workers for each in splits} == {0}
        assert {sum(each) for each in splits} == {GLOBAL_BATCH}
    clones_of_workers, *splits = LAUNCHED
    assert {len(each) for each in splits} == {sum(clones_of_workers)}
    assert {sum(each) for each in splits} == {GLOBAL_BATCH}


def told(cases: Iterable[Case]) -> Iterator[str]:
    """Yield the cases as lines, in which those are together that differ in batches and packing alone."""
    alike: dict[str, list[str]] = {}
    for case in cases:
        where = f"{case.workers} workers, {case.layout}" if case.workers else case.layout
        key = f"{case.mode}, {case.aggregation}, {where}"
        more = [" ".join(map(str, case.batches))]
        more += [f"packed by {case.pack}"] if case.pack is not None else []
        more += ["slots too"] if case.average_slots else []
        alike.setdefault(key, []).append(" ".join(more))
    for key, found in alike.items():
        yield f"{key}: {'; '.join(found)}"


def test_all_combinations(golden: Callable[[str, str], None]) -> None:
    """Those for one process and its clusters, the sample of them, and those for real processes."""
    every = list(every_case(100))
    lines = [f"{len(every)} combinations", *told(every), "", "a sample", *told(sample(every))]
    lines += ["", "of processes", *told(launched_cases(100))]
    golden("verify/cases.txt", "\n".join(lines) + "\n")


def test_a_case_in_words() -> None:
    """All that it is made of, and no aggregation for clones that update by themselves."""
    ring = Case("sync", ir.Call("ring", (), {"chunk": 64}), "spread", (4, 8), pack=100)
    assert ring.title == (
        "mode = sync, aggregate = ring(chunk = 64), variables spread, batch = [4, 8], packed"
    )
    workers = Case("local", ADD, "sharded", (6, 6, 6, 6), average_slots=True, workers=2)
    assert workers.title == (
        "mode = local, aggregate = add_n, variables sharded, batch = [6, 6, 6, 6], "
        "replication = in_graph, 2 workers, slots averaged"
    )
    alone = Case("async", ADD, "spread", (6, 6, 8, 4), workers=2, between=True)
    assert alone.title == (
        "mode = async, variables spread, batch = [6, 6, 8, 4], replication = between_graph, 2 workers"
    )
    assert [each.layout for each in (ring, workers, alone)] == [
        "spread",
        "sharded, in graph",
        "spread, between graphs",
    ]
    assert [each.updaters for each in (ring, alone)] == [(4, 8), (12, 12)]
    assert evolve(alone, between=False).updaters == (6, 6, 8, 4)


def test_a_spec_gets_the_settings_of_a_case() -> None:
    """On logical CPUs, without what it expected, and without what makes runs of it comparable or shown."""
    spec = classifier(optimizer="SGD(0.1)")
    spec = evolve(
        spec,
        update=evolve(spec.update, staleness=3, backup=1, ema=0.5),
        train=evolve(spec.train, deterministic=True, summaries="all"),
    )
    local = Case("local", ADD, SLOTS_SHARDED, (4, 8), pack=100, average_slots=True).apply(spec)
    update = local.update
    assert (update.mode, update.pack, update.average_every, update.average_slots) == (
        "local",
        100,
        AVERAGE_EVERY,
        True,
    )
    assert (update.staleness, update.backup, update.replication, update.ema) == (None, 0, None, 0.5)
    assert local.devices == ir.Devices(cpu=2)
    assert local.clones == ir.Clones(count=2, batch=(4, 8))
    assert [(each.selector.role, type(each.target)) for each in local.place.rules] == [
        ("clones", ir.DeviceSet),
        ("variables", ir.Replicated),
        ("slots", ir.OverClones),
    ]
    assert (local.train.deterministic, local.train.summaries) == (False, "none")
    sync = Case("sync", ADD, "sharded", (6, 6, 6, 6), workers=2).apply(spec)
    assert (sync.update.average_every, sync.update.replication) == (None, "in_graph")
    assert [(job.name, job.tasks, job.cpu) for job in sync.devices.jobs] == [
        ("ps", 2, 1),
        ("worker", 2, 2),
    ]
    assert [type(each.target) for each in sync.place.rules] == [ir.DeviceSet, ir.Sharded]
    between = Case("async", ADD, "spread", (6, 6), workers=2, between=True).apply(spec)
    assert between.update.replication == "between_graph"
    assert launched_spec(spec).clones.batch == LAUNCHED[1]


def test_what_cannot_be_compared_is_left_out() -> None:
    """With the reason, each of which is counted, or silently where there is no reference."""
    spec = classifier(optimizer="SGD(0.1)")
    whole, parts = (
        select_cases(spec, sparse=False, pack=100, quick=False, whole=each) for each in (True, False)
    )
    gone = [each for each in whole.cases if each not in parts.cases]
    assert gone
    assert all(each.mode == "async" and len(each.updaters) < each.clones for each in gone)
    assert whole.left_out == parts.left_out
    uncut = select_cases(spec, sparse=False, pack=100, quick=False, uncut={"sharded": "it is whole"})
    sharded = [each for each in whole.cases if each.variables == "sharded"]
    assert dict(uncut.left_out)["it is whole"] == len(sharded)
    assert {each.variables for each in uncut.cases} == {each.variables for each in whole.cases} - {"sharded"}
    quick = select_cases(spec, sparse=False, pack=100, quick=True)
    assert len(quick.cases) < len(whole.cases) / 4
    assert all(each in whole.cases for each in quick.cases)
    launched = select_cases(spec, sparse=False, pack=100, quick=True, launch=True)
    assert {each.clones for each in launched.cases} == {4}
    assert {each.workers for each in launched.cases} == {2}


def test_a_limit_of_memory_becomes_every_layer() -> None:
    """Steps of `verify` are smaller than any limit; layers that a spec names stay."""
    for written, verified in (
        ('scopes("conv*")', ir.Call("scopes", ("conv*",))),
        ("memory(8GiB)", ir.Call("scopes", ("*",))),
        ("none", None),
    ):
        spec = classifier(update__recompute=written)
        assert Case("sync", ADD, "shared", (24,)).apply(spec).update.recompute == verified


def test_clones_of_a_pipeline_keep_their_groups_and_stages() -> None:
    """In one process and on workers; what they are compared with takes one micro-batch after the other."""
    group = ir.Groups(ir.DeviceSet((ir.DevicePattern("cpu"),)), 2)
    stage = ir.Rule(ir.Selector("ops", "hidden/*"), ir.GroupMember(1))
    spec = classifier(update__accumulate="2", update__schedule="gpipe")
    spec = evolve(spec, place=ir.Place((ir.Rule(ir.Selector("clones"), group), stage)))
    found = select_cases(spec, sparse=False, pack=100, quick=True)
    assert {case.mode for case in found.cases} == {"sync", "async", "local"}
    for case in found.cases:
        applied = case.apply(spec)
        assert applied.update.schedule == "gpipe"
        assert (applied.place.rules[0].target, applied.place.rules[2]) == (group, stage)
        devices = applied.devices
        cpus = devices.cpu if not devices.jobs else devices.jobs[1].tasks * (devices.jobs[1].cpu or 0)
        assert cpus == 2 * case.clones
    whole = plain_of(spec, (24,))
    assert (whole.update.schedule, whole.update.accumulate, whole.devices.cpu) == (None, 2, 1)


MODEL = """
tfdeploy = 1
model "m" {{
  x = input(float32, [4])
  y = input(float32, [2])
  z = x -> Dense(6, name = "hidden"{hidden}) -> Dense(2)
  loss = [y, z] -> MeanSquaredError()
}}
update {{ optimizer = {optimizer} }}
"""
PIECES = {"sharded", SLOTS_SHARDED}


@pytest.mark.parametrize(
    ("hidden", "optimizer", "uncut", "reason"),
    [
        ("", "SGD(0.1)", set(), ""),
        (", kernel_constraint = MaxNorm(1.0)", "SGD(0.1)", {"sharded"}, "the constraint, `MaxNorm`,"),
        (", kernel_regularizer = OrthogonalRegularizer()", "SGD(0.1)", {"sharded"}, "the regularizer,"),
        (", kernel_constraint = NonNeg(), kernel_regularizer = L2(0.1)", "SGD(0.1)", set(), ""),
        ("", "Muon(0.1)", PIECES, "the optimizer, `Muon`,"),
    ],
)
def test_what_is_needed_whole_is_not_compared_in_pieces(
    hidden: str, optimizer: str, uncut: set[str], reason: str
) -> None:
    """The reason is what a compilation says; all else is compared, also what can be cut all the same."""
    spec = spec_of(MODEL.format(hidden=hidden, optimizer=optimizer))
    selected = Verification(spec, Options(steps=1, synthetic=True)).selected
    assert {each.variables for each in selected.cases} == {*LAYOUTS} - uncut
    found = [title for title, _ in selected.left_out if "needs the whole variable" in title]
    assert len(found) == len(uncut)
    assert all(reason in each for each in found)
