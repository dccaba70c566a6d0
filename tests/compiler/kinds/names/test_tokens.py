"""What is looked for in names, with and without the names of devices."""

from __future__ import annotations

import pytest

from compiler.kinds.names.tokens import HINT, TOKENS, TOKENS_OF_SUMS, TOKENS_OF_WORKER, Tokens

TEXTS = {
    "update/fc1/replica_2/add": ["replica_2"],
    "average/fc1/copy_3/share": ["average/fc1/copy_3"],
    "input/1/clone_4/x": ["input/1/clone_4"],
    "worker[1].gpu[2]": ["worker[1].gpu[2]"],
    "clone_5 of gpu[6]": ["clone_5", "gpu[6]"],
    "Recv_clone_5/add_0_on_worker[1].gpu[2]": ["clone_5", "add_0_on_worker[1].gpu[2]"],
    "x/at_worker_1_gpu_0/y": ["/at_worker_1_gpu_0"],
    "/job_worker/replica_0/task_1/device_GPU_2": ["/job_worker/replica_0/task_1/device_GPU_2"],
    "fc1/kernel_3/add": [],
}


@pytest.mark.parametrize("tokens", [TOKENS, TOKENS_OF_SUMS, TOKENS_OF_WORKER])
@pytest.mark.parametrize("text", TEXTS)
def test_names_with_and_without_devices_have_the_same_tokens(text: str, tokens: Tokens) -> None:
    """Devices are only looked for where a bracket is, and nothing is found or lost by that."""
    found = [match[0] for match in tokens.within(text, 0)]
    assert found == [match[0] for match in tokens.named.finditer(text)] == TEXTS[text]
    assert bool(found) <= bool(HINT.search(text))


def test_tokens_of_tasks_are_found_only_where_there_are_such() -> None:
    """Sums of tasks and boxes of workers have numbers of tasks in graphs of these kinds alone."""
    of_sum, of_box = "aggregate/fc1/group_2/add", "mail/fc1/worker_3/box"
    wanted = [(TOKENS, [], []), (TOKENS_OF_SUMS, ["2"], []), (TOKENS_OF_WORKER, [], ["3"])]
    for tokens, sums, boxes in wanted:
        assert [match["sum"] for match in tokens.within(of_sum, 0)] == sums
        assert [match["box"] for match in tokens.within(of_box, 0)] == boxes
    assert [match["clone"] for match in TOKENS.within("clone_1/clone_2", 7)] == ["2"]
