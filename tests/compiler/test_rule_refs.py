"""What a map says of the rule, the default or the other thing by which something is where it is."""

from __future__ import annotations

from compiler.mapping.records import RuleRef
from compiler.reasons import Reason
from dsl import ir
from dsl.source import Source, Span

SPAN = Span(Source("a.tfdeploy", "place {\n  variables -> cpu[0]\n}\n"), 10, 29)
RULE = ir.Rule(ir.Selector("variables"), ir.Replicated(), span=SPAN)


def test_what_follows_another_thing_tells_what_placed_that() -> None:
    """At the end of the chain; a rule has its place in the spec, and a default has none."""
    placed = Reason("variables -> cpu[0]", "rule", RULE)
    slot = Reason("dense/kernel", "follows", RULE, cause=placed)
    update = Reason("dense/kernel/momentum", "follows", RULE, cause=slot)
    default = Reason("clones -> gpu[*]", "default")
    assert RuleRef.of(placed) == RuleRef("a.tfdeploy", 2, 3, "variables -> cpu[0]", "rule")
    assert RuleRef.of(update) == RuleRef(
        "a.tfdeploy", 2, 3, "dense/kernel/momentum", "follows", "variables -> cpu[0]"
    )
    assert RuleRef.of(default) == RuleRef(None, None, None, "clones -> gpu[*]", "default")
    followed = Reason("op", "follows", cause=default)
    assert RuleRef.of(followed) == RuleRef(None, None, None, "op", "follows", "clones -> gpu[*]")
