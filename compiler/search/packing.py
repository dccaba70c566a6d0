"""Parts of a graph that have nothing to do with each other, shared out among the devices."""

from __future__ import annotations

import numpy as np

from compiler.search.problem import Integers, Problem, find_components, merge, unordered


def pack_components(problem: Problem) -> Integers:
    """Return a placement in which nothing has to be moved, because every component is on one device.

    The longest component comes first, and each goes where the load is then the lowest (Graham, Bounds on
    multiprocessing timing anomalies, 1969). If there are many components, such as operators without edges, no
    placement is much better. If a component fits no device, it is on the one that it misses the least.

    Returns:
        The device of each group.
    """
    components = find_components(problem)
    joined = merge(unordered(problem), components)
    count = problem.accelerators
    loads = np.zeros(count + 1)
    room = np.append(np.full(count, float(problem.capacity)), np.inf)
    places = np.zeros(joined.size, dtype=np.int64)
    for part in np.argsort(-joined.seconds, kind="stable").tolist():
        after = loads + joined.seconds[part]
        after[count] = loads[count] + joined.host_seconds[part]
        possible = room >= joined.bytes[part]
        possible[:count] &= joined.supported[part]
        possible[count] = problem.host
        if possible.any():
            place = int(np.argmin(np.where(possible, after, np.inf)))
        else:
            place = int(np.argmax(room[:count]))
        loads[place] = after[place]
        room[place] -= joined.bytes[part]
        places[part] = place
    return places[components]
