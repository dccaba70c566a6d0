"""The reads of a variable that must end before an update changes it."""

from __future__ import annotations

from compiler.graph.assembly import Assembly
from compiler.graph.variables.variables import GraphVariable


def reads_of(assembly: Assembly, variable: GraphVariable, copy: int) -> list[str]:
    """Return the names of the reads of a copy which must end before it changes."""
    readers = assembly.towers[copy : copy + 1] if variable.replicated else assembly.towers
    scores = assembly.score_reads.get(variable.copies[copy].name, [])
    shard = variable.info.shard
    number = None if shard is None else shard.number
    return [read for each in readers for read in each.reads(variable.weight, number)] + scores
