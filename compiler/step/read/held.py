"""The variables of a graph, and how many bytes each device holds of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from attrs import frozen

from compiler.step.step import Step


@frozen
class Held:
    """A variable of a graph."""

    name: str
    device: str  # the name of its device in specs
    bytes: int
    # `variable` for one of the model, `slot` for a slot or a moving average, else `other`.
    kind: str = "other"


def held_variables(step: Step) -> Iterator[Held]:
    """Yield each variable of a graph once; all handles of one name on a device are of the same variable."""
    kinds: dict[str, str] = {}
    for variable in step.variables.values():
        kinds |= {each.handle: "slot" for each in variable.slots}
        kinds |= dict.fromkeys(variable.copies, "variable")
    handles = [op for op in step.ops.values() if op.type == "VarHandleOp" and op.name not in step.abroad]
    for op in {(op.attributes["shared_name"], op.device.ordinal): op for op in handles}.values():
        held = op.outputs[0].held_bytes or 0  # rows that wait in a mailbox, of which there are none at first
        yield Held(op.name, op.device.ref, held, kinds.get(op.name, "other"))


def held_by_device(step: Step, *, own: bool = False) -> Mapping[str, Counter[str]]:
    """Return the bytes of variables of each kind that devices hold, by the names of the devices."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for each in held_variables(step):
        if not own or step.ops[each.name].own:
            found[each.device][each.kind] += each.bytes
    return found
