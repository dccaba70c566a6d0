"""The rules for variables that are tried."""

from __future__ import annotations

from compiler.topology import Topology
from dsl.ir.place import PARAMETER_SERVER


def variable_rules(topology: Topology) -> tuple[str, ...]:
    """Return the targets for all variables of a model that make sense on some devices, as text.

    Args:
        topology: The devices.
    """
    targets: list[str] = []
    if topology.parameter_servers:
        sets = [(PARAMETER_SERVER, len(topology.parameter_servers))]
    else:
        sets = [(kind, len(topology.select(kind))) for kind in ("cpu", "gpu")]
    for name, count in sets:
        if count > 1:
            spread = (f"balanced({name}[*])", f"sharded({name}[*])", f"round_robin({name}[*])")
            targets += [*spread, f"{name}[0]"]
        elif count == 1:
            targets.append(f"{name}[0]")
    if topology.parameter_servers:
        targets.append("cpu[0]")  # that of the chief, which sends itself nothing
    targets.append("replicated")
    return tuple(f"variables -> {each}" for each in targets)
