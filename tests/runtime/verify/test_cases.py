"""The combinations that `verify` compares."""

from __future__ import annotations

from tfdeploy.runtime.verify.cases import (
    CLUSTERS,
    GLOBAL_BATCH,
    LAUNCHED,
    SPLITS,
    _sums,
    _values,
    every_case,
    sample,
)


def test_a_sample_has_every_value_for_its_numbers_of_clones() -> None:
    """It is much smaller, and each aspect of a mode has all values that it has for these clones."""
    cases = [each for each in every_case(100) if each.clones in {2, 3}]
    few = sample(list(every_case(100)))
    assert {each.clones for each in few} <= {2, 3}
    assert len(few) < len(cases) / 2
    assert {value for each in few for value in _values(each)} == {
        value for each in cases for value in _values(each)
    }


def test_one_clone_needs_no_sums() -> None:
    """Of one clone, all placements of variables are taken with one aggregation, and the others once."""
    found = [(call.name, variables, pack) for call, variables, pack in _sums(1, 100)]
    assert all(pack is None for *_, pack in found)
    names = [name for name, _, _ in found]
    assert names.count("add_n") == 4
    assert {names.count(name) for name in names if name != "add_n"} == {1}
    assert {variables for name, variables, _ in found if name != "add_n"} == {"shared"}


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
