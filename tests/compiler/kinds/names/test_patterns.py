"""Names of a few clones give the names of many; names that cannot are refused."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.kinds.deployment.grid import Grid, Spot
from compiler.kinds.names.counting import counted_names
from compiler.kinds.names.patterns import Counted, NotAlikeError, Numbers, Patterns

FEW, MANY = Grid("worker", "gpu", 2, 2), Grid("worker", "gpu", 64, 8)


@pytest.mark.parametrize(
    ("name", "spot", "grown"),
    [
        ("fc/kernel", Spot(), "fc/kernel"),
        ("clone_3/fc/MatMul", Spot(1, 1), "clone_23/fc/MatMul"),
        ("clone_1/fc/MatMul", Spot(0, 1), "clone_7/fc/MatMul"),
        ("fc/kernel/replica_2", Spot(1, 0), "fc/kernel/replica_16"),
        ("input/1/next", Spot(1), "input/2/next"),
        ("input/1/clone_1/asked", Spot(1, 1), "input/2/clone_7/asked"),
        ("input/split/x:1", Spot(0, 1), "input/split/x:7"),
        ("average/fc/kernel/copy_3/assign", Spot(1, 1), "average/fc/kernel/copy_23/assign"),
        (
            "Recv_average/fc/kernel/copy_1/share_0_on_0:0",
            Spot(0, 1),
            "Recv_average/fc/kernel/copy_7/share_0_on_0:0",
        ),
        ("total_loss/copy_2/mul_1", Spot(1, 0), "total_loss/copy_16/mul_1"),
        ("a/copy_1/MatMul", Spot(), "a/copy_1/MatMul"),
        ("worker[1].gpu[1]", Spot(1, 1), "worker[2].gpu[7]"),
        ("worker[1].cpu[0]", Spot(1), "worker[2].cpu[0]"),
        ("ps[1].cpu[0]", Spot(), "ps[1].cpu[0]"),
        ("clone_1/fc/Const/at_worker_0_gpu_1", Spot(0, 1), "clone_7/fc/Const/at_worker_0_gpu_7"),
        (
            "Recv_clone_3/y_0_on_/job_worker/replica_0/task_0/device_CPU_0:0",
            Spot(1, 1),
            "Recv_clone_23/y_0_on_/job_worker/replica_0/task_0/device_CPU_0:0",
        ),
    ],
)
def test_names_of_a_few_give_the_names_of_many(name: str, spot: Spot, grown: str) -> None:
    """Each is written for clone 7 on task 2, or on task 0 if it is of the first task."""
    pattern = Patterns(FEW).of(name)
    assert pattern.spot == spot
    place = (2 if spot.host else 0, 7 if spot.group else 0)
    assert pattern.at(Numbers(MANY), spot, *place) == grown
    assert pattern.template(MANY, spot).at(Numbers(MANY), *place) == grown
    assert pattern.partly(MANY, *place).at(Numbers(MANY), 0, 0) == grown


def test_members_of_a_group_keep_their_numbers() -> None:
    """With two devices for each clone, GPU 3 is the second of clone 1."""
    pattern = Patterns(Grid(None, "gpu", 1, 2, 2)).of("gpu[3]")
    assert pattern.spot == Spot(0, 1)
    assert pattern.at(Numbers(Grid(None, "gpu", 1, 8, 2)), pattern.spot, 0, 6) == "gpu[13]"


def test_a_name_of_two_clones_is_refused() -> None:
    """So is a thing beside a clone that is not its own."""
    patterns = Patterns(FEW)
    with pytest.raises(NotAlikeError):
        patterns.of("clone_1/sent_to/clone_2")
    with pytest.raises(NotAlikeError):
        patterns.of("worker[1].gpu[0]").at(Numbers(MANY), Spot(0, 1), 0, 7)


def test_numbers_that_count_clones_are_found() -> None:
    """The first name of a family has no number; a family that does not grow with the clones is none."""
    few = ["sum", "sum_1", "sum_2", "sum_3", "copy", "copy_1", "copy_2", "dense", "dense_1"]
    more = [*few, *(f"sum_{at}" for at in range(4, 9)), *(f"copy_{at}" for at in range(3, 8)), "dense_2"]
    found, larger = counted_names(few, more, (4, 9))
    assert set(found) == {each for each in few if not each.startswith("dense")}
    assert (found["sum"].clone, found["sum_3"].clone) == (0, 3)
    assert (found["copy"].clone, found["copy_2"].clone) == (1, 3)
    assert found["copy_2"].name(500) == "copy_499"
    assert found["copy_2"].name(1) == "copy"
    assert larger["sum_8"].name(300) == "sum_300"
    patterns = Patterns(Grid(None, "gpu", 1, 4), found)
    numbers = Numbers(Grid(None, "gpu", 1, 600))
    for name, clone, grown in (
        ("sum", 0, "sum"),
        ("sum_1", 500, "sum_500"),
        ("copy", 1, "copy"),
        ("copy", 500, "copy_499"),
        ("copy_1", 2, "copy_1"),
    ):
        pattern = patterns.of(name)
        assert pattern.template(numbers.grid, pattern.spot).at(numbers, 0, clone) == grown
        assert pattern.at(numbers, pattern.spot, 0, clone) == grown
        tensor = patterns.of_tensor(f"{name}:2")
        assert tensor.at(numbers, pattern.spot, 0, clone) == f"{grown}:2"
        assert tensor.template(numbers.grid, pattern.spot).at(numbers, 0, clone) == f"{grown}:2"


@pytest.mark.parametrize(
    ("name", "spot", "grown"),
    [
        ("clone_1/fc/MatMul", Spot(0, 1), "clone_7/fc/MatMul"),
        ("mail/fc/kernel/worker_1/box", Spot(1), "mail/fc/kernel/worker_2/box"),
        ("Recv_mail/fc/worker_1/box", Spot(1), "Recv_mail/fc/worker_2/box"),
        ("fc/worker_1", Spot(), "fc/worker_1"),
        ("cluster/present/unstack:1", Spot(1), "cluster/present/unstack:2"),
        ("cluster/present/unstack_1:1", Spot(1), "cluster/present/unstack_1:2"),
        ("cluster/present/unstack_1", Spot(), "cluster/present/unstack_1"),
        ("Recv_cluster/present/unstack_1_on_0:0", Spot(1), "Recv_cluster/present/unstack_2_on_0:0"),
        ("Recv_cluster/present/unstack_1_1_on_0:0", Spot(1), "Recv_cluster/present/unstack_1_2_on_0:0"),
        ("fc/unstack:1", Spot(), "fc/unstack:1"),
    ],
)
def test_names_in_the_graph_of_one_worker(name: str, spot: Spot, grown: str) -> None:
    """Its clones are numbered from 0, and it finds gradients in a box for each worker.

    If workers may be missing, it has a number for each that says whether it is there.
    """
    pattern = Patterns(FEW, of_worker=True).of(name)
    assert pattern.spot == spot
    assert pattern.at(Numbers(MANY), spot, 2 if spot.host else 0, 7 if spot.group else 0) == grown


def test_one_pipe_feeds_the_clones_of_all_tasks() -> None:
    """Its outputs are numbered by clone, and those of the pipe of a task by the clone on it."""
    numbers = Numbers(MANY)
    one = Patterns(FEW, pipes="one").of("input/split/x:3")
    assert one.spot == Spot(1, 1)
    assert one.at(numbers, one.spot, 2, 7) == "input/split/x:23"
    fed = Patterns(FEW).of("input/1/clone_1/asked")
    assert fed.at(numbers, fed.spot, 2, 7) == "input/2/clone_7/asked"


@pytest.mark.parametrize(
    ("name", "of_worker", "spot", "grown"),
    [
        ("input/3/next:1", False, Spot(1, 1), "input/23/next:1"),
        ("input/1/clone_0/micro_batches/x", False, Spot(0, 1), "input/7/clone_0/micro_batches/x"),
        ("input/next:1", False, Spot(), "input/next:1"),
        ("Recv_input/1/next_on_0:0", True, Spot(0, 1), "Recv_input/7/next_on_0:0"),
    ],
)
def test_pipes_of_clones(name: str, of_worker: bool, spot: Spot, grown: str) -> None:
    """If each clone has one, they are numbered as the clones are: all of them, or those of a worker.

    In such a pipe the only clone that it feeds has the number 0.
    """
    pattern = Patterns(FEW, pipes="clone", of_worker=of_worker).of(name)
    assert pattern.spot == spot
    assert pattern.at(Numbers(MANY), spot, 2 if spot.host else 0, 7 if spot.group else 0) == grown


def test_numbers_of_clones_can_stay_as_they_are() -> None:
    """Then only tasks have places."""
    pattern = Patterns(FEW, by_group=False).of("worker[1].gpu[1]")
    assert pattern.spot == Spot(1)
    assert pattern.at(Numbers(MANY), pattern.spot, 5, 0) == "worker[5].gpu[1]"


@pytest.mark.parametrize(
    ("name", "spot", "grown"),
    [
        ("clone_3/fc/MatMul", Spot(1), "clone_41/fc/MatMul"),
        ("aggregate/group_7/kernel/group_1", Spot(1), "aggregate/group_7/kernel/group_5"),
        ("Recv_aggregate/fc/kernel/group_1:0", Spot(1), "Recv_aggregate/fc/kernel/group_5:0"),
        ("Recv_aggregate/fc/group_1_0_on_/task_1:0", Spot(1), "Recv_aggregate/fc/group_5_0_on_/task_1:0"),
        ("group_1/kernel", Spot(), "group_1/kernel"),
        ("aggregate/bucket_1/pack_3/packed", Spot(1), "aggregate/bucket_1/pack_41/packed"),
    ],
)
def test_names_by_tasks_if_their_clones_are_summed_there(name: str, spot: Spot, grown: str) -> None:
    """A sum has the number of its task, and a clone keeps its place on any task."""
    pattern = Patterns(evolve(FEW, sums=1), by_group=False).of(name)
    assert pattern.spot == spot
    numbers = Numbers(MANY)
    assert pattern.at(numbers, spot, 5 if spot.host else 0, 0) == grown
    assert pattern.template(MANY, spot).at(numbers, 5 if spot.host else 0, 0) == grown


@pytest.mark.parametrize(
    ("name", "spot", "text", "grown"),
    [
        ("aggregate/k/group_3", Spot(1), "aggregate/k/group_{sum_1}", "aggregate/k/group_11"),
        ("aggregate/k/group_2", Spot(1), "aggregate/k/group_{sum_0}", "aggregate/k/group_10"),
        ("aggregate/k/group_1", Spot(0), "aggregate/k/group_{sum_1}", "aggregate/k/group_1"),
        (
            "Recv_aggregate/k/group_3:0",
            Spot(1),
            "Recv_aggregate/k/group_{sum_1}:0",
            "Recv_aggregate/k/group_11:0",
        ),
    ],
)
def test_names_of_several_sums_of_a_task(name: str, spot: Spot, text: str, grown: str) -> None:
    """Their numbers go on from task to task, and each keeps its place on any task."""
    pattern, many = Patterns(evolve(FEW, sums=2), by_group=False).of(name), evolve(MANY, sums=2)
    assert pattern.spot == spot
    assert pattern.template(many, spot).text() == text
    host = 5 if spot.host else 0
    assert pattern.at(Numbers(many), spot, host, 0) == grown
    assert pattern.partly(many, host, None).at(Numbers(many), 0, 0) == grown


def test_names_that_are_counted_among_all_clones_are_of_no_task() -> None:
    """Their numbers do not follow from the number of a task alone."""
    patterns = Patterns(FEW, {"sum_3": Counted("sum", "", 3, 0, bare=True)}, by_group=False)
    with pytest.raises(NotAlikeError, match="sum_3 is counted among all clones"):
        patterns.of("sum_3")
