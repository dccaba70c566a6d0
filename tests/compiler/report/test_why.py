"""Explanations as text: the rule in its place in the spec, the rules that it beat, the chain before it."""

from __future__ import annotations

from compiler.mapping.explanation import Explanation, Link
from compiler.reasons import Reason
from compiler.report.view import Ink
from compiler.report.why import why_text
from dsl import ir
from dsl.source import Source, Span

SPEC = Source(
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
    start = SPEC.text.index(text)
    target = ir.DeviceSet((ir.DevicePattern("gpu"),))
    return ir.Rule(ir.Selector(role), target, span=Span(SPEC, start, start + len(text)))


CLONES = Reason("clones -> gpu[*]", "rule", rule("clones -> gpu[*]", "clones"))
VARIABLES = rule("variables -> cpu[0]", "variables")
LOGITS = Reason(
    'variables("logits*") -> gpu[0]',
    "rule",
    rule('variables("logits*") -> gpu[0]', "variables"),
    (VARIABLES,),
)
INPUTS = Reason("inputs -> cpu[0]", "default")


def explained(name: str, *chain: Link, clone: int | None = 0, assigned: str | None = None) -> Explanation:
    """Return the explanation of an op whose chain starts with itself."""
    kind = "variable" if chain[0].kind == "variable" else "op"
    role = "variable" if kind == "variable" else "forward"
    return Explanation(kind, name, "MatMul", role, clone, chain[0].device, assigned, chain)


def test_a_rule_and_the_one_it_beat() -> None:
    """The deciding rule is marked in the spec, and so is the one that matched and came earlier."""
    variable = explained("logits/kernel", Link("variable", "logits/kernel", "gpu[0]", LOGITS), clone=None)
    assert why_text([variable], Ink()) == (
        "logits/kernel is on gpu[0]\n"
        "  MatMul, variable\n"
        " --> train.tfdeploy:4:3\n"
        "  |\n"
        "3 |   variables -> cpu[0]\n"
        "  |   ------------------- matches too, and comes earlier\n"
        '4 |   variables("logits*") -> gpu[0]\n'
        "  |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ placed by this rule\n"
    )


def test_what_follows_has_its_chain() -> None:
    """An op that follows others names them, and then the rule that placed the last of them."""
    name = "clone_1/gradients/logits/MatMul_grad"
    chain = (
        Link("op", name, "gpu[0]", Reason("logits/MatMul", "follows")),
        Link("op", "clone_1/logits/MatMul", "gpu[0]", CLONES),
    )
    assert why_text([explained(name, *chain, clone=1, assigned="cpu[0]")], Ink()) == (
        "clone_1/gradients/logits/MatMul_grad is on gpu[0] (in fact on cpu[0])\n"
        "  MatMul, forward op of clone 1\n"
        "  follows the op clone_1/logits/MatMul\n"
        " --> train.tfdeploy:2:3\n"
        "  |\n"
        "2 |   clones -> gpu[*]\n"
        "  |   ^^^^^^^^^^^^^^^^ placed by this rule\n"
    )


def test_a_default() -> None:
    """Where no rule speaks, the default is given as it would be written."""
    op = explained("input/next", Link("op", "input/next", "cpu[0]", INPUTS), clone=None)
    assert why_text([op], Ink()) == (
        "input/next is on cpu[0]\n"
        "  MatMul, forward op\n"
        "  placed by the default `inputs -> cpu[0]`: no rule matches it\n"
    )


def test_many_things_by_what_decided() -> None:
    """What a glob means is told in paragraphs, one for each rule; of many names the first few are given."""
    many = [
        explained(f"clone_{at}/a", Link("op", f"clone_{at}/a", f"gpu[{at}]", CLONES), clone=at)
        for at in range(10)
    ]
    kernel = (
        Link("op", "b/read", "gpu[0]", Reason("logits/kernel", "follows")),
        Link("variable", "logits/kernel", "gpu[0]", INPUTS),
    )
    assert why_text([*many, explained("b/read", *kernel)], Ink()) == (
        "10 ops placed by `clones -> gpu[*]`\n"
        + "".join(f"  gpu[{at}]  clone_{at}/a\n" for at in range(8))
        + "  and 2 more; plan --ops --filter lists them all\n"
        " --> train.tfdeploy:2:3\n"
        "  |\n"
        "2 |   clones -> gpu[*]\n"
        "  |   ^^^^^^^^^^^^^^^^ placed by this rule\n"
        "\n"
        "1 op placed by `inputs -> cpu[0]`\n"
        "  gpu[0]  b/read follows logits/kernel\n"
        "  placed by the default `inputs -> cpu[0]`: no rule matches it\n"
    )
