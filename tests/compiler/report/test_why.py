"""Explanations as text: the rule in its place in the spec, the rules that it beat, the chain before it."""

from collections.abc import Callable
from typing import Any

import pytest

from compiler.mapping.explanation import Explanation, Link
from compiler.reasons import Reason
from compiler.report.view import Ink
from compiler.report.why import NAMED, why_text, why_time
from compiler.shards import Shard
from dsl import ir
from dsl.source import Source, Span
from tests.compiler.report.test_time import FORECAST

PLACE = Source(
    "train.tfdeploy",
    """\
place {
  clones -> gpu[*]
  variables -> cpu[0]
  variables("logits*") -> gpu[0]
}
""",
)


def rule(text: str, role: str) -> ir.Rule:
    """Return the rule that stands as `text` in the spec."""
    start = PLACE.text.index(text)
    target = ir.DeviceSet((ir.DevicePattern("gpu"),))
    return ir.Rule(ir.Selector(role), target, span=Span(PLACE, start, start + len(text)))


BY_CLONES = Reason("clones -> gpu[*]", "rule", rule("clones -> gpu[*]", "clones"))
BY_LOGITS = Reason(
    'variables("logits*") -> gpu[0]',
    "rule",
    rule('variables("logits*") -> gpu[0]', "variables"),
    (rule("variables -> cpu[0]", "variables"),),
)
BY_DEFAULT = Reason("inputs -> cpu[0]", "default")


def explained(name: str, *chain: tuple[str, Reason], **more: Any) -> Explanation:
    """Return the explanation of an op, or of a variable with `kind`; `chain` has what it follows."""
    kind, device = more.pop("kind", "op"), more.pop("device", "cpu[0]")
    links = [Link(kind, name, device, chain[0][1] if chain else BY_DEFAULT)]
    links += [Link("variable" if "kernel" in each else "op", each, device, why) for each, why in chain[1:]]
    role = "variable" if kind == "variable" else "forward"
    fields = {"clone": None, **more}
    return Explanation(
        kind=kind, name=name, type="MatMul", role=role, requested=device, chain=tuple(links), **fields
    )


def piece(number: int, axis: int) -> Explanation:
    """Return the explanation of one of two pieces."""
    shard = Shard("v", number, 2, axis, number * 1500, 1500, (3000, 8, 3000))
    return explained(f"v/shard_{number}", shard=shard)


FOLLOWED = Reason("logits/MatMul", "follows")
WHY = {
    "a_rule_and_the_one_it_beat": [
        explained("logits/kernel", ("", BY_LOGITS), kind="variable", device="gpu[0]")
    ],
    "a_chain": [
        explained(
            "clone_1/gradients/logits/MatMul_grad",
            *(("", FOLLOWED), ("clone_1/logits/MatMul", BY_CLONES)),
            clone=1,
            device="gpu[0]",
        )
    ],
    "a_default": [explained("input/next")],
    "several": [
        *(
            explained(f"clone_{at}/a", ("", BY_CLONES), clone=at, device=f"gpu[{at}]")
            for at in range(NAMED + 2)
        ),
        explained("b/read", ("", Reason("logits/kernel", "follows")), ("logits/kernel", BY_DEFAULT)),
    ],
    "as_many_as_are_named": [explained(f"op_{at}") for at in range(NAMED)],
    "one_more": [explained(f"op_{at}") for at in range(NAMED + 1)],
    "pieces": [piece(0, 0), piece(1, 2)],
    "a_piece": [piece(1, 2)],
    "pieces_and_others": [piece(0, 0), piece(1, 2), explained("op")],
}


@pytest.mark.parametrize("name", WHY)
def test_why(name: str, golden: Callable[[str, str], None]) -> None:
    """The rule in its place in the spec, the rules that it beat, and the chain before it."""
    golden(f"why/{name}.txt", why_text(WHY[name], Ink()))


def test_what_is_on_the_critical_path() -> None:
    """The time of an op counts with that of its transfer; what is beside the path is said to be."""
    found = [[explained(each) for each in names] for names in (["a=10"], ["c=2"], ["a=10", "b=5", "c=2"])]
    assert [why_time(each, FORECAST) for each in found] == [
        "on the critical path: 10.0 ms of a step of 26.0 ms, 38%\n",
        "not on the critical path of a step of 26.0 ms\n",
        "2 ops of these on the critical path: 15.0 ms of a step of 26.0 ms, 58%\n",
    ]
