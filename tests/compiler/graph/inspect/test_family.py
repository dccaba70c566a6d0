"""No stray op: in a family of specs, and in graphs with an op that is not where it should be."""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from compiler.graph.build import compile_graph, compile_step
from compiler.graph.finished import in_graph
from compiler.graph.inspect.one_step import run_one_step
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.inspect.verify_placement import verify_placement
from compiler.pipeline import make_plan
from compiler.reasons import Placed, Reason
from compiler.step.read.why import explain_placement
from compiler.step.record import Entry, Tensor
from tests.compiler.graph.inspect.family import plan_of
from tests.support import CLASSIFIER, CONVOLUTION, marked, refusal_of, spec_of

MEMBERS = 96  # of all kinds, which take turns by threes, fours and eights


def check(number: int) -> None:
    """Compile a member, run one step of it, and look at every op."""
    compiled = compile_graph(plan_of(number))
    found = run_one_step(compiled)
    placement = map_placement(compiled, found)
    assert placement.misplaced == ()
    assigned = {each.name: each.assigned for each in placement.ops}
    assert _unseen(compiled.step.run, assigned) == []
    assert all(op.device for op in compiled.graph.get_operations())
    for each in placement.ops:
        _explained(compiled, each)


def _unseen(ops: list[Any], assigned: dict[str, str | None]) -> list[str]:
    """Return the ops of a step of which nothing was seen; a loop may have no use for all that it is given."""
    unseen = {op.name for op in ops if assigned[op.name] is None}
    seen = [op for op in ops if op.name not in unseen and "While" not in op.type]
    return sorted({each.op for op in seen for each in op.inputs} & unseen)


def _explained(compiled: Any, op: Any) -> None:
    (found,) = explain_placement(compiled.step, op.name)
    assert found.requested == op.requested
    assert found.decider.kind in {"rule", "default"}
    assert found.decider.text
    if found.decider.kind == "rule":
        assert (op.rule.line, op.rule.decided_by or op.rule.text) == (
            found.decider.rule.span.begin.line,
            found.decider.text,
        )


@pytest.mark.family(every=11)
@pytest.mark.parametrize("number", range(MEMBERS))
def test_a_member_of_the_family(number: int) -> None:
    """Machines with CPUs, with GPUs, and clusters, in turn."""
    check(number)


GPUS = "cpu = 1\n gpu = 2"


def compiled(rules: str = "", *, devices: str = GPUS, layers: str = CONVOLUTION, **overrides: str) -> Any:
    """Return the emulated step of a small classifier on two GPUs, by some rules."""
    text = CLASSIFIER.format(clones=2, batch=4, optimizer="SGD(0.1)", layers=layers)
    text = text.replace("cpu = 2", devices) + f"place {{\n {rules}\n }}\n"
    found = compile_step(make_plan(spec_of(text, **overrides), emulate=True))
    return evolve(found, ledger=evolve(found.ledger))  # whose ops are not listed yet


def on(graph: Any, ref: str, clone: int | None = None) -> Entry:
    """Return an entry that asks for a device by default."""
    device = next(each for each in graph.plan.topology.devices if each.ref == ref)
    return Entry(Placed(device, Reason(f"here -> {ref}", "default")), "forward", clone)


def add(graph: Any, name: str, entry: Entry, kind: str = "Const", inputs: Sequence[Tensor] = ()) -> None:
    """Add an op to a step."""
    writer = evolve(graph.ledger.writer(entry.role), clone=entry.clone)
    writer.write(kind, name, inputs, entry.placed, {"value": 1.0, "dtype": "float32", "shape": ()})


def test_a_graph_as_compiled_has_no_stray_op() -> None:
    """Every op has a device and an entry; looking again finds nothing."""
    graph = compiled(train__summaries="all")
    verify_placement(graph)
    assert all(op.device for op in in_graph(graph).graph.get_operations())


def test_an_op_away_from_its_variable() -> None:
    """What works on a resource has to be with it."""
    graph = compiled()
    handle = Tensor("logits/bias", "resource", (), holds=("float32", (10,)))
    add(graph, "far", on(graph, "gpu[1]"), "ReadVariableOp", [handle])
    found = refusal_of(lambda: verify_placement(graph))
    assert found.message == "the op `far` is on `gpu[1]`: what it works on is on `cpu[0]`"


def test_summaries_on_a_gpu_point_at_their_rule() -> None:
    """GPUs have no ops on strings; the diagnostic is at the rule and counts what else it puts there."""
    found = refusal_of(lambda: compiled("summaries -> gpu[1]"))
    assert found.code == "TFD512"
    assert found.message == "the op `summary/loss/tags` is on `gpu[1]`: GPUs have no ops on strings"
    assert marked(found) == "summaries -> gpu[1]"
    assert found.notes == ("6 more ops are placed like this",)


def test_many_stray_ops_are_told_in_few_words() -> None:
    """One diagnostic for a reason, however many ops there are."""
    graph = compiled()
    for number in range(100):
        add(graph, f"stray_{number}", on(graph, "gpu[1]", clone=0))
    found = refusal_of(lambda: verify_placement(graph))
    assert (found.message, found.notes) == (
        "the op `stray_0` is on `gpu[1]`: clone 0 has `gpu[0]`",
        ("99 more ops are placed like this",),
    )
