"""Names of a few clones give the names of many, by texts with places for numbers."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from compiler.kinds.grid import MapGrid, NotAlikeError, Spot
from compiler.kinds.templates import Numbers, Template, escaped, parse
from tests.compiler.kinds.fitted import FEW, MORE, by_task, patterns

MANY = MapGrid("worker", "gpu", 64, 8, 1)
TEXTS = (
    "clone_{clone}/fc/MatMul",
    "fc/kernel/replica_{clone}",
    "input/{task}/next",
    "input/{task}/clone_{place}/asked",
    "input/split/x:{place}",
    "average/fc/kernel/copy_{clone}/assign",
    "clone_{clone}/fc/Const/at_worker_{task}_gpu_{place}",
    "clone_{clone}/y",
    "clone_{clone}/fc_1/mul_2",
    "my_clone_2/mul",
)


@pytest.mark.parametrize(
    ("name", "spot", "grown"),
    [
        ("fc/kernel", Spot(), "fc/kernel"),
        ("clone_3/fc/MatMul", Spot(1, 1), "clone_23/fc/MatMul"),
        ("clone_1/fc/MatMul:0", Spot(0, 1), "clone_7/fc/MatMul:0"),
        ("fc/kernel/replica_2", Spot(1, 0), "fc/kernel/replica_16"),
        ("input/next", Spot(), "input/next"),
        ("input/1/next", Spot(1), "input/2/next"),
        ("input/1/clone_1/asked", Spot(1, 1), "input/2/clone_7/asked"),
        ("input/clone_1/asked", Spot(0, 1), "input/clone_7/asked"),
        ("input/split/x:1", Spot(0, 1), "input/split/x:7"),
        ("average/fc/kernel/copy_3/assign", Spot(1, 1), "average/fc/kernel/copy_23/assign"),
        ("clone_1/fc_1/mul_2", Spot(0, 1), "clone_7/fc_1/mul_2"),
        ("my_clone_2/mul", Spot(), "my_clone_2/mul"),
        ("worker[1].gpu[1]", Spot(1, 1), "worker[2].gpu[7]"),
        ("worker[1].cpu[0]", Spot(1), "worker[2].cpu[0]"),
        ("inputs -> worker[1].cpu[0]", Spot(1), "inputs -> worker[2].cpu[0]"),
        ("ps[1].cpu[0]", Spot(), "ps[1].cpu[0]"),
        ("clone_1/fc/Const/at_worker_0_gpu_1", Spot(0, 1), "clone_7/fc/Const/at_worker_0_gpu_7"),
    ],
)
def test_names_of_a_few_give_the_names_of_many(name: str, spot: Spot, grown: str) -> None:
    """Each is written for clone 7 on task 2, or on task 0 if it is of the first task."""
    pattern = patterns(*TEXTS)[0].of(name)
    assert pattern.spot == spot
    place = (2 if spot.host else 0, 7 if spot.group else 0)
    assert pattern.at(Numbers(MANY), spot, *place) == grown
    assert pattern.template(MANY, spot).at(Numbers(MANY), *place) == grown
    assert pattern.partly(MANY, *place).at(Numbers(MANY), 0, 0) == grown


@pytest.mark.parametrize("sizes", [((2, 2), (3, 2)), ((2, 2), (2, 3)), ((2, 1), (3, 1))])
def test_names_of_grids_of_which_one_side_stays(sizes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """Places are found though their numbers have the same values in both graphs, by the words before them."""
    few, more = (MapGrid("worker", "gpu", *each, 1) for each in sizes)
    for graph in patterns(*TEXTS, few=few, more=more):
        last = graph.grid.spot(graph.grid.clones - 1)
        for text in TEXTS[:-1]:
            numbers = {"clone": graph.grid.clones - 1, "task": last.host, "place": last.group}
            name = text.format(**numbers)
            found = graph.of(name)
            at_first = Numbers(MapGrid("worker", "gpu", 64, more.groups, 1))
            wanted = text.format(clone=0, task=0, place=0)
            host, group = (0 if each is None else each for each in (found.spot.host, found.spot.group))
            assert found.at(at_first, found.spot, host, group) == text.format(
                clone=host * more.groups + group, task=last.host, place=last.group
            )
            assert name == wanted or found.spot != Spot()


def test_members_of_a_group_keep_their_numbers() -> None:
    """With two devices for each clone, GPU 3 is the second of clone 1."""
    few = MapGrid(None, "gpu", 1, 2, 2)
    pattern = patterns(few=few, more=evolve(few, groups=3))[0].of("gpu[3]")
    assert pattern.spot == Spot(0, 1)
    assert pattern.at(Numbers(MapGrid(None, "gpu", 1, 8, 2)), pattern.spot, 0, 6) == "gpu[13]"


def test_a_name_of_two_clones_is_refused() -> None:
    """So is a thing beside a clone that is not its own."""
    found = patterns("clone_{clone}/y")[0]
    with pytest.raises(NotAlikeError):
        found.of("clone_2 -> worker[1].gpu[0] and worker[2].gpu[0]")
    with pytest.raises(NotAlikeError):
        found.of("worker[1].gpu[0]").at(Numbers(MANY), Spot(0, 1), 0, 7)


def test_numbers_that_count_clones_are_found() -> None:
    """The first name of a family may have no number; what does not grow with the clones is none."""
    few, more = MapGrid(None, "gpu", 1, 4, 1), MapGrid(None, "gpu", 1, 9, 1)
    texts = ("sum_{clone}", "x/copy_{less}/y", "x/copy/y", "z/part_{less}", "dense_1")
    found, larger = patterns(*texts, few=few, more=more)
    numbers = Numbers(MapGrid(None, "gpu", 1, 600, 1))
    assert found.of("dense_1").spot == Spot()
    for name, clone, grown in (
        ("sum", 0, "sum"),
        ("sum_1", 500, "sum_500"),
        ("z/part_0", 1, "z/part_0"),
        ("z/part_2", 500, "z/part_499"),
    ):
        for graph in (found, larger):
            pattern = graph.of(name)
            assert pattern.template(numbers.grid, pattern.spot).at(numbers, 0, clone) == grown
            assert pattern.at(numbers, pattern.spot, 0, clone) == grown
            tensor = graph.of(f"{name}:2")
            assert tensor.at(numbers, pattern.spot, 0, clone) == f"{grown}:2"
            assert tensor.template(numbers.grid, pattern.spot).at(numbers, 0, clone) == f"{grown}:2"


def test_the_first_that_is_counted_has_no_number() -> None:
    """The second clone has it if the first has none; among two clones no other name is there."""
    for few in (2, 4):
        names = [["copy", *(f"copy_{at}" for at in range(1, clones - 1))] for clones in (few, few + 1)]
        listed = [
            evolve(each.listed, hosts=dict.fromkeys(own))
            for each, own in zip(
                patterns(few=MapGrid(None, "gpu", 1, few, 1), more=MapGrid(None, "gpu", 1, few + 1, 1)),
                names,
                strict=True,
            )
        ]
        for graph in type(patterns()[0]).of_both(*listed):
            pattern = graph.of("copy")
            assert pattern.spot == Spot(0, 1)
            numbers = Numbers(MapGrid(None, "gpu", 1, 600, 1))
            assert [pattern.at(numbers, pattern.spot, 0, at) for at in (1, 2, 500)] == [
                "copy",
                "copy_1",
                "copy_499",
            ]
            assert pattern.template(numbers.grid, pattern.spot).text() == "copy{suffix}"


@pytest.mark.parametrize(
    ("name", "spot", "grown"),
    [
        ("clone_1/fc/MatMul", Spot(0, 1), "clone_7/fc/MatMul"),
        ("mail/fc/kernel/worker_1/box", Spot(1), "mail/fc/kernel/worker_2/box"),
        ("cluster/present/unstack:1", Spot(1), "cluster/present/unstack:2"),
        ("cluster/present/unstack_1:1", Spot(1), "cluster/present/unstack_1:2"),
        ("cluster/present/unstack_1", Spot(), "cluster/present/unstack_1"),
        ("input/clone_1/next", Spot(0, 1), "input/clone_7/next"),
    ],
)
def test_names_in_the_graph_of_one_worker(name: str, spot: Spot, grown: str) -> None:
    """Its clones are numbered from 0, and it finds gradients in a box for each worker.

    If workers may be missing, it has a number for each that says whether it is there.
    """
    texts = (
        "clone_{clone}/fc/MatMul",
        "mail/fc/kernel/worker_{task}/box",
        "cluster/present/unstack:{task}",
        "cluster/present/unstack_1:{task}",
        "input/clone_{place}/next",
    )
    pattern = patterns(*texts, more=evolve(FEW, hosts=3), of_worker=True)[0].of(name)
    assert pattern.spot == spot
    assert pattern.at(Numbers(MANY), spot, 2 if spot.host else 0, 7 if spot.group else 0) == grown


def test_one_pipe_feeds_the_clones_of_all_tasks() -> None:
    """Its outputs are numbered by clone, and those of the pipe of a task by the clone on it."""
    one = patterns("input/split/x:{clone}")[0].of("input/split/x:3")
    assert one.spot == Spot(1, 1)
    assert one.at(Numbers(MANY), one.spot, 2, 7) == "input/split/x:23"


@pytest.mark.parametrize(
    ("name", "of_worker", "spot", "grown"),
    [
        ("input/3/next:1", False, Spot(1, 1), "input/23/next:1"),
        ("input/1/clone_0/micro_batches/x", False, Spot(0, 1), "input/7/clone_0/micro_batches/x"),
        ("input/next:1", False, Spot(), "input/next:1"),
        ("input/1/next", True, Spot(0, 1), "input/7/next"),
    ],
)
def test_pipes_of_clones(name: str, of_worker: bool, spot: Spot, grown: str) -> None:
    """If each clone has one, they are numbered as the clones are: all of them, or those of a worker.

    In such a pipe the only clone that it feeds has the number 0.
    """
    texts = ("input/{clone}/next", "input/{clone}/clone_0/micro_batches/x")
    more = evolve(FEW, hosts=3) if of_worker else MORE
    pattern = patterns(*texts, more=more, own_pipes=True, of_worker=of_worker)[0].of(name)
    assert pattern.spot == spot
    assert pattern.at(Numbers(MANY), spot, 2 if spot.host else 0, 7 if spot.group else 0) == grown


@pytest.mark.parametrize(
    ("sums", "name", "spot", "text", "grown"),
    [
        (0, "worker[1].gpu[1]", Spot(1), "worker[{task}].gpu[1]", "worker[5].gpu[1]"),
        (0, "clone_3/fc/MatMul", Spot(1), "clone_{clone_1}/fc/MatMul", "clone_41/fc/MatMul"),
        (0, "a/pack_3/packed", Spot(1), "a/pack_{clone_1}/packed", "a/pack_41/packed"),
        (1, "aggregate/k/group_1", Spot(1), "aggregate/k/group_{task}", "aggregate/k/group_5"),
        (0, "group_1/kernel", Spot(), "group_1/kernel", "group_1/kernel"),
    ],
)
def test_names_by_tasks(sums: int, name: str, spot: Spot, text: str, grown: str) -> None:
    """A sum has the number of its task, and a clone keeps its place on any task."""
    texts = ("clone_{clone}/fc/MatMul", "aggregate/k/group_{task}", "a/pack_{clone}/packed", "group_1/kernel")
    pattern = by_task(texts, evolve(FEW, sums=sums)).of(name)
    assert pattern.spot == spot
    many = evolve(MANY, sums=sums)
    assert pattern.at(Numbers(many), spot, 5 if spot.host else 0, 0) == grown
    assert pattern.template(many, spot).text() == text


@pytest.mark.parametrize(
    ("name", "spot", "text", "grown"),
    [
        ("aggregate/k/group_3", Spot(1), "aggregate/k/group_{sum_1}", "aggregate/k/group_11"),
        ("aggregate/k/group_2", Spot(1), "aggregate/k/group_{sum_0}", "aggregate/k/group_10"),
        ("aggregate/k/group_1", Spot(0), "aggregate/k/group_{sum_1}", "aggregate/k/group_1"),
    ],
)
def test_names_of_several_sums_of_a_task(name: str, spot: Spot, text: str, grown: str) -> None:
    """Their numbers go on from task to task, and each keeps its place on any task."""
    few, many = MapGrid("worker", "gpu", 2, 4, 1, 2), evolve(MANY, sums=2)
    listed = [
        evolve(each.listed, hosts={f"aggregate/k/group_{at}": at // 2 for at in range(2 * each.grid.hosts)})
        for each in patterns(few=few, more=evolve(few, hosts=3), by_group=False)
    ]
    pattern = type(patterns()[0]).of_both(*listed)[0].of(name)
    assert pattern.spot == spot
    assert pattern.template(many, spot).text() == text
    host = 5 if spot.host else 0
    assert pattern.at(Numbers(many), spot, host, 0) == grown
    assert pattern.partly(many, host, None).at(Numbers(many), 0, 0) == grown


GRID = MapGrid("worker", "gpu", 3, 4, 2, sums=2)
NUMBERS = Numbers(GRID)


@pytest.mark.parametrize(
    ("text", "first", "second", "last"),
    [
        ("fc/kernel", "fc/kernel", "fc/kernel", "fc/kernel"),
        ("clone_{clone}/fc", "clone_0/fc", "clone_1/fc", "clone_11/fc"),
        ("{task}.{place}", "0.0", "0.1", "2.3"),
        ("sum{suffix}", "sum", "sum", "sum_10"),
        ("of_{clone_less}", "of_-1", "of_0", "of_10"),
        ("gpu[{device}] gpu[{device_1}]", "gpu[0] gpu[1]", "gpu[2] gpu[3]", "gpu[6] gpu[7]"),
        ("{clone_0} and {clone_2}", "0 and 2", "0 and 2", "8 and 10"),
        ("{sum_0} and {sum_1}", "0 and 1", "0 and 1", "4 and 5"),
        ("a{{b}}{task}", "a{b}0", "a{b}0", "a{b}2"),
    ],
)
def test_places_are_filled_in(text: str, first: str, second: str, last: str) -> None:
    """With the numbers of clone 0, of clone 1, and of the last clone of three tasks with four of two GPUs."""
    template = parse(text, GRID)
    assert [template.at(NUMBERS, *each) for each in ((0, 0), (0, 1), (2, 3))] == [first, second, last]
    assert template.text() == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{other}", "not known"),
        ("{device_2}", "not known"),
        ("{device_0}", "not known"),
        ("{clone_01}", "not known"),
        ("{sum_2}", "not known"),
        ("{sum_01}", "not known"),
        ("{clone:3}", "with a format"),
        ("{clone!r}", "with a format"),
        ("{clone", "not closed, or not opened"),
        ("clone}", "not closed, or not opened"),
    ],
)
def test_texts_that_are_no_templates(text: str, words: str) -> None:
    """A clone of two devices has no third, two sums have none, and numbers are written as they are."""
    with pytest.raises(NotAlikeError, match=words):
        parse(text, GRID)


@given(text=st.text("ab{}/_0", max_size=8))
def test_a_name_with_braces_stays_as_it_is(text: str) -> None:
    """Escaped, it has no places, and a text without places is one part."""
    template = parse(escaped(text), GRID)
    assert template.at(NUMBERS, 2, 3) == text
    assert len(template.parts) <= 1
    assert template.text() == escaped(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a{clone}", "b{clone}", True),
        ("a{clone}/x", "a{clone}/y", True),
        ("a{clone}/x", "a{clone}/xy", False),
        ("a{clone}", "a{task}", False),
        ("a{sum_0}", "a{sum_1}", False),
        ("a{clone}", "a0", False),
        ("a{clone}", "a{clone}", True),
        ("a{clone}", "a{clone}x", False),
    ],
)
def test_names_in_one_order_for_all_clones(one: str, other: str, *, same: bool) -> None:
    """They differ first in a text, and not in a number or in how long they are."""
    found: tuple[Template, Template] = (parse(one, GRID), parse(other, GRID))
    assert found[0].is_ordered_as(found[1]) == found[1].is_ordered_as(found[0]) == same
