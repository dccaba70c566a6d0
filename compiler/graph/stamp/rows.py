"""The gather of rows of a table, beside the variable that holds them.

Which ops gather depends on how the variable is updated. `ResourceGather` locks the variable and makes
TensorFlow keep it in a mode in which every dense update, and every read of the whole, copies it. That costs
nothing if updates write rows as well, which need this mode anyway. A variable that is updated as a whole is
read instead, which copies nothing, and its rows are gathered from what was read.
"""

from __future__ import annotations

from compiler.graph.stamp.sources import WeightSource
from compiler.reasons import Placed
from compiler.step.record import Tensor
from compiler.step.writer import StepWriter


def gather_rows(
    writer: StepWriter, name: str, source: WeightSource, indices: Tensor, placed: Placed
) -> Tensor:
    """Write the gather of some rows of a variable in the type of the table."""
    handle = source.variable.tensor
    if source.by_rows:
        given = {"dtype": handle.holds[0]}
        return writer.write("ResourceGather", name, (handle, indices), placed, given)[0]
    return writer.gather(name, writer.read(f"{name}/table", handle, placed), indices, placed)
