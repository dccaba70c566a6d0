"""`explain_placement`: what decided, what it beat, the chain between, and names of all kinds."""

from typing import Any

import pytest

from compiler.graph.inspect.placement_map import map_placement
from compiler.mapping.explanation import Explanation
from compiler.report.view import Ink
from compiler.report.why import why_text
from compiler.step.read.why import explain_placement, suggest_names
from tests.graphs import graph_of
from tests.support import spec_of

SPEC = """tfdeploy = 1

model "m" {
  image = input(float32, [8, 8, 1])
  digit = input(int32, [])
  logits = image -> Conv2D(4, 3, activation = relu, name = "conv1") -> Flatten(name = "flat")
    -> Dense(10, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}

devices { cpu = 5 }
clones { batch = 4 }

place {
  clones -> groups(cpu[1..4], size = 2)
  variables -> cpu[1]
  variables("logits/*") -> cpu[0]
  updates -> cpu[2]
  ops("*") -> group[0]
  ops("conv1/*") -> group[1]
}

update { optimizer = Momentum(0.1) }
train { seed = 7 }
"""


@pytest.fixture(scope="module")
def compiled() -> Any:
    """The graph of the spec."""
    return graph_of(spec_of(SPEC))


def only(compiled: Any, pattern: str) -> Explanation:
    """Return the only explanation for a pattern."""
    (found,) = explain_placement(compiled.step, pattern)
    return found


def told(found: Explanation) -> tuple[str, str, list[str], list[int]]:
    """Return role, device, and what put each thing of the chain there, with the lines of the rules.

    These are the deciding rule, and those that it beat.
    """
    rules = [found.decider.rule, *found.beaten]
    lines = [rule.span.begin.line for rule in rules if rule is not None and rule.span is not None]
    chain = [f"{each.kind} {each.name}: {each.reason.text}" for each in found.chain]
    return found.role, found.requested, chain, lines


CONV, ALL = 'ops("conv1/*") -> group[1]', 'ops("*") -> group[0]'
FIRST = "variable conv1/kernel: variables -> cpu[1]"
EXPLAINED: dict[str, tuple[str, str, list[str], list[int]]] = {
    # The last rule that matches has decided; the one before it is beaten.
    "clone_1/conv1/convolution": ("forward", "cpu[4]", [f"op clone_1/conv1/convolution: {CONV}"], [20, 19]),
    "clone_0/gradients/flat/Reshape_grad/Reshape": (  # its own name matches as well
        "gradient",
        "cpu[1]",
        [f"op clone_0/gradients/flat/Reshape_grad/Reshape: {ALL}"],
        [19],
    ),
    "clone_1/logits/kernel/read": (
        "read",
        "cpu[0]",
        [
            "op clone_1/logits/kernel/read: logits/kernel",
            'variable logits/kernel: variables("logits/*") -> cpu[0]',
        ],
        [17, 16],
    ),
    "conv1/kernel": ("variable", "cpu[1]", [FIRST], [16]),
    "conv1/kernel/Momentum": ("variable", "cpu[1]", ["op conv1/kernel/Momentum: conv1/kernel", FIRST], [16]),
    # `updates` moves the sum of the gradients; the fused op stays where its variable is.
    "aggregate/conv1/kernel/add_n*": (
        "aggregate",
        "cpu[2]",
        ["op aggregate/conv1/kernel/add_n: updates -> cpu[2]"],
        [18],
    ),
    "update/conv1/kernel/ResourceApplyKerasMomentum": (
        "update",
        "cpu[1]",
        ["op update/conv1/kernel/ResourceApplyKerasMomentum: conv1/kernel", FIRST],
        [16],
    ),
    # What no rule matches is explained by the default, as it would be written.
    "input/next": ("input", "cpu[0]", ["op input/next: inputs -> cpu[0]"], []),
}


@pytest.mark.parametrize("pattern", EXPLAINED)
def test_the_chain_leads_to_the_rule(compiled: Any, pattern: str) -> None:
    """From an op to what it follows, to the rule or default."""
    found = only(compiled, pattern)
    assert told(found) == EXPLAINED[pattern]
    assert found.decider.kind == ("default" if pattern == "input/next" else "rule")


def test_what_is_known_of_an_op(compiled: Any) -> None:
    """Its kind, type and clone, and where it is."""
    found = only(compiled, "clone_1/conv1/convolution")
    assert (found.kind, found.type, found.clone, found.requested) == ("op", "Conv2D", 1, "cpu[4]")


def test_a_gradient_follows_its_forward_op() -> None:
    """The chain goes from the gradient over the op that it differentiates to the rule."""
    graph = graph_of(spec_of(SPEC.replace(f"  {ALL}\n", "")))
    assert told(only(graph, "clone_0/gradients/conv1/Relu_grad/ReluGrad")) == (
        "gradient",
        "cpu[2]",
        ["op clone_0/gradients/conv1/Relu_grad/ReluGrad: conv1/Relu", f"op clone_0/conv1/Relu: {CONV}"],
        [19],
    )


BIAS = "clone_1/conv1/BiasAdd"
BOTH = ["clone_0/conv1/BiasAdd", BIAS]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (BIAS, [BIAS]),
        (f"{BIAS}:0", [BIAS]),
        (f"^{BIAS}", [BIAS]),
        (f"'{BIAS}'", [BIAS]),
        (f"{{{{node {BIAS}}}}}", [BIAS]),
        (f"[[{{{{node {BIAS}}}}}]]", [BIAS]),
        (f"node {BIAS} (defined at /tmp/model.py:12)", [BIAS]),
        (f"Node: '{BIAS}'", [BIAS]),
        (f"{BIAS}/_51", [BIAS]),
        (f"/job:localhost/replica:0/task:0/device:CPU:3/{BIAS}", [BIAS]),
        ("clone_1/*/BiasAd?", [BIAS, "clone_1/logits/BiasAdd"]),
        # A name inside a tower means every clone.
        ("conv1/BiasAdd", BOTH),
        ("conv1/Bias*dd", BOTH),
        # Every node of a message is looked up, once.
        (
            "Cannot colocate {{node clone_0/flat/Reshape}} and {{node conv1/bias}}: {{node conv1/bias}}",
            ["clone_0/flat/Reshape", "conv1/bias"],
        ),
    ],
)
def test_names_as_people_come_across_them(compiled: Any, pattern: str, names: list[str]) -> None:
    """Outputs, control inputs, quotes, devices, globs, and what error messages of TensorFlow print."""
    assert [each.name for each in explain_placement(compiled.step, pattern)] == names


def test_a_layer_means_all_of_it(compiled: Any) -> None:
    """A scope stands for everything below it, variables included."""
    found = {each.name for each in explain_placement(compiled.step, "conv1")}
    assert {"conv1/kernel", "clone_0/conv1/Relu", "clone_1/conv1/bias/read"} <= found


def test_what_names_nothing_is_answered_with_the_nearest(compiled: Any) -> None:
    """No explanation, and names that are like it."""
    assert explain_placement(compiled.step, "conv2/kernel") == ()
    assert suggest_names(compiled.step, "conv2/kernel")[0] == "conv1/kernel"
    assert suggest_names(compiled.step, "clone_0/logit/*")[0] == "clone_0/logits/*"


def test_every_op_has_an_explanation(compiled: Any) -> None:
    """Each chain ends with a rule or a default, on the device that was asked for."""
    for name in compiled.ledger.entries:
        found = only(compiled, name)
        assert found.decider.kind in {"rule", "default"}
        assert {each.device for each in found.chain} == {found.requested}
        assert found.decider.text


FROZEN = """tfdeploy = 1

layer "part" {
  x = input()
  output = x -> Dense(4, name = "inner") -> BatchNormalization(name = "norm")
}

model "m" {
  x = input(float32, [4])
  y = input(float32, [2])
  z = x
    -> part(trainable = false, name = "block")
    -> Dense(3, trainable = false, name = "own")
    -> Dense(3, name = "globbed")
    -> BatchNormalization(name = "norm")
    -> Dense(2, name = "head")
  loss = [y, z] -> MeanSquaredError()
}

devices { cpu = 1 }
clones { batch = 4 }

update {
  optimizer {
    "head/kernel" -> Adam(0.1)
    "*" -> SGD(0.1)
  }
  freeze = ["globbed/*"]
}
"""


def test_a_frozen_variable_names_the_line_that_froze_it() -> None:
    """An argument of a block or of a step, or a glob; what Keras itself does not train is not frozen."""
    graph = graph_of(spec_of(FROZEN))
    frozen = {
        name: found.frozen.begin.line if found.frozen is not None else None
        for name in graph.variables
        for found in [only(graph, name)]
    }
    assert frozen == {
        **dict.fromkeys(("block/inner/kernel", "block/inner/bias", "block/norm/gamma"), 12),
        **dict.fromkeys(("block/norm/beta", "block/norm/moving_mean", "block/norm/moving_variance"), 12),
        **dict.fromkeys(("own/kernel", "own/bias"), 13),
        **dict.fromkeys(("globbed/kernel", "globbed/bias"), 28),
        **dict.fromkeys(f"norm/{each}" for each in ("gamma", "beta", "moving_mean", "moving_variance")),
        **dict.fromkeys(("head/kernel", "head/bias")),
    }
    text = why_text([only(graph, "own/kernel")], Ink())
    assert "  frozen, so that training does not change it, by line 13 of test.tfdeploy:\n" in text
    assert '    -> Dense(3, trainable = false, name = "own")\n' in text
    groups = {each.name: each.group for each in map_placement(graph).variables}
    assert groups["head/kernel"] == '"head/kernel" -> Adam(0.1)'
    assert groups["head/bias"] == '"*" -> SGD(0.1)'
    assert groups["own/kernel"] is None
