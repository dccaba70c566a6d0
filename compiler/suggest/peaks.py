"""How many bytes of tensors a step has at once on each device, in an order in which its ops could run."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from compiler.time.work import StepWork

_HELD = ("ReadVariableOp", "VarHandleOp")
"""The types of ops whose results are variables, which are there anyway."""


def peaks(work: StepWork) -> Mapping[str, int]:
    """Return the bytes of the peak of each device.

    A tensor is on the device that makes it, and on each that it is sent to, until the last op there has used
    it.

    Args:
        work: The step.
    """
    after: list[list[int]] = [[] for _ in work.ops]
    waits = [0] * len(work.ops)
    sizes: dict[tuple[int, str, str], int] = {}
    users: dict[tuple[int, str, str], int] = {}
    used: list[list[tuple[int, str, str]]] = [[] for _ in work.ops]
    made: list[list[tuple[int, str, str]]] = [[] for _ in work.ops]
    names = {each: each.ref for each in work.devices}
    refs = [names[each.device] for each in work.ops]
    for each in work.arrows:
        after[each.source].append(each.target)
        waits[each.target] += 1
        there = refs[each.target]
        held = work.ops[each.source].signature.type in _HELD
        if each.bytes and (not held or refs[each.source] != there):
            key = (each.source, each.tensor, there)
            if key not in sizes:
                made[each.source].append(key)
            sizes[key] = each.bytes
            users[key] = users.get(key, 0) + 1
            used[each.target].append(key)
    alive = {each.ref: 0 for each in work.devices}
    most = dict(alive)
    ready = deque(at for at, count in enumerate(waits) if count == 0)
    while ready:
        at = ready.popleft()
        for key in made[at]:
            alive[key[2]] += sizes[key]
            most[key[2]] = max(most[key[2]], alive[key[2]])
        for key in used[at]:
            users[key] -= 1
            if users[key] == 0:
                alive[key[2]] -= sizes[key]
        for target in after[at]:
            waits[target] -= 1
            if waits[target] == 0:
                ready.append(target)
    return most
