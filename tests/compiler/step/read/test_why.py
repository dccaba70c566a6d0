"""`explain_placement`: what decided, what it beat, the chain between, and names of all kinds."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.graph.build import compile_graph
from compiler.graph.inspect.one_step import run_one_step
from compiler.graph.inspect.placement_map import map_placement
from compiler.mapping.explanation import Explanation
from compiler.pipeline import make_plan
from compiler.report.view import Ink
from compiler.report.why import why_text
from compiler.step.read.why import explain_placement, suggest_names
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
    return compile_graph(make_plan(spec_of(SPEC)))


@pytest.fixture(scope="module")
def assigned(compiled: Any) -> dict[str, str]:
    """The devices that the ops of a step ran on."""
    return run_one_step(compiled)


def only(compiled: Any, pattern: str, assigned: dict[str, str] | None = None) -> Explanation:
    """Return the only explanation for a pattern."""
    (found,) = explain_placement(compiled.step, pattern, assigned)
    return found


def chain(explanation: Explanation) -> list[tuple[str, str, str]]:
    """Return the links of a chain: kind and name of each thing, and what put it there."""
    return [(each.kind, each.name, each.reason.text) for each in explanation.chain]


def lines(explanation: Explanation) -> list[int]:
    """Return the lines of the deciding rule and of those that it beat."""
    rules = [explanation.decider.rule, *explanation.beaten]
    return [rule.span.begin.line for rule in rules if rule is not None and rule.span is not None]


def test_an_op_by_a_rule(compiled: Any, assigned: dict[str, str]) -> None:
    """The last rule that matches decided; the one before it is named as beaten, each with its line."""
    found = only(compiled, "clone_1/conv1/convolution", assigned)
    assert (found.kind, found.type, found.role, found.clone) == ("op", "Conv2D", "forward", 1)
    assert (found.requested, found.assigned) == ("cpu[4]", "cpu[4]")
    assert chain(found) == [("op", "clone_1/conv1/convolution", 'ops("conv1/*") -> group[1]')]
    assert lines(found) == [20, 19]


def test_a_gradient_follows_its_forward_op(compiled: Any) -> None:
    """The chain goes from the gradient over the op that it differentiates to the rule."""
    found = only(compiled, "clone_0/gradients/flat/Reshape_grad/Reshape")
    assert chain(found)[0][2] == 'ops("*") -> group[0]'  # its own name matches as well
    graph = compile_graph(make_plan(spec_of(SPEC.replace('  ops("*") -> group[0]\n', ""))))
    followed = only(graph, "clone_0/gradients/conv1/Relu_grad/ReluGrad")
    assert chain(followed) == [
        ("op", "clone_0/gradients/conv1/Relu_grad/ReluGrad", "conv1/Relu"),
        ("op", "clone_0/conv1/Relu", 'ops("conv1/*") -> group[1]'),
    ]
    assert (followed.requested, lines(followed)) == ("cpu[2]", [19])


def test_a_read_follows_its_variable(compiled: Any) -> None:
    """From the op to the variable to the rule for variables, with the rule that it beat."""
    found = only(compiled, "clone_1/logits/kernel/read")
    assert chain(found) == [
        ("op", "clone_1/logits/kernel/read", "logits/kernel"),
        ("variable", "logits/kernel", 'variables("logits/*") -> cpu[0]'),
    ]
    assert lines(found) == [17, 16]


def test_a_variable_and_its_slot(compiled: Any) -> None:
    """A variable is explained by its rule, its slot by the variable."""
    assert chain(only(compiled, "conv1/kernel")) == [("variable", "conv1/kernel", "variables -> cpu[1]")]
    assert chain(only(compiled, "conv1/kernel/Momentum")) == [
        ("op", "conv1/kernel/Momentum", "conv1/kernel"),
        ("variable", "conv1/kernel", "variables -> cpu[1]"),
    ]


def test_sums_are_by_the_rule_for_updates_and_apply_ops_with_their_variable(
    compiled: Any, assigned: dict[str, str]
) -> None:
    """`updates` moves the sum of the gradients; the fused op stays where its variable is."""
    summed = only(compiled, "aggregate/conv1/kernel/add_n*")
    assert (summed.role, summed.requested) == ("aggregate", "cpu[2]")
    assert chain(summed)[-1][2] == "updates -> cpu[2]"
    applied = only(compiled, "update/conv1/kernel/ResourceApplyKerasMomentum", assigned)
    assert (applied.role, applied.requested, applied.assigned) == ("update", "cpu[1]", "cpu[1]")
    assert chain(applied)[-1] == ("variable", "conv1/kernel", "variables -> cpu[1]")


def test_a_default_says_which(compiled: Any) -> None:
    """What no rule matches is explained by the default, as it would be written."""
    found = only(compiled, "input/next")
    assert (found.decider.kind, found.decider.text) == ("default", "inputs -> cpu[0]")
    assert (found.decider.rule, found.beaten) == (None, ())


@pytest.mark.parametrize(
    "pattern",
    [
        "clone_1/conv1/BiasAdd",
        "clone_1/conv1/BiasAdd:0",
        "^clone_1/conv1/BiasAdd",
        "'clone_1/conv1/BiasAdd'",
        "{{node clone_1/conv1/BiasAdd}}",
        "[[{{node clone_1/conv1/BiasAdd}}]]",
        "node clone_1/conv1/BiasAdd (defined at /tmp/model.py:12)",
        "Node: 'clone_1/conv1/BiasAdd'",
        "clone_1/conv1/BiasAdd/_51",
        "/job:localhost/replica:0/task:0/device:CPU:3/clone_1/conv1/BiasAdd",
        "clone_1/*/BiasAd?",
    ],
)
def test_names_as_people_come_across_them(compiled: Any, pattern: str) -> None:
    """Outputs, control inputs, quotes, devices, and what error messages of TensorFlow print."""
    wanted = {"clone_1/conv1/BiasAdd"} | ({"clone_1/logits/BiasAdd"} if "*" in pattern else set())
    assert {each.name for each in explain_placement(compiled.step, pattern)} == wanted


def test_a_name_inside_a_tower_means_every_clone(compiled: Any) -> None:
    """So does a glob on such names."""
    names = ["clone_0/conv1/BiasAdd", "clone_1/conv1/BiasAdd"]
    assert [each.name for each in explain_placement(compiled.step, "conv1/BiasAdd")] == names
    assert [each.name for each in explain_placement(compiled.step, "conv1/Bias*dd")] == names


def test_a_layer_means_all_of_it(compiled: Any) -> None:
    """A scope stands for everything below it, variables included."""
    found = {each.name for each in explain_placement(compiled.step, "conv1")}
    assert {"conv1/kernel", "clone_0/conv1/Relu", "clone_1/conv1/bias/read"} <= found


def test_a_message_with_two_names_is_explained_whole(compiled: Any) -> None:
    """Every node of a message is looked up, once."""
    message = "Cannot colocate {{node clone_0/flat/Reshape}} and {{node conv1/bias}}: {{node conv1/bias}}"
    assert [each.name for each in explain_placement(compiled.step, message)] == [
        "clone_0/flat/Reshape",
        "conv1/bias",
    ]


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
    graph = compile_graph(make_plan(spec_of(FROZEN)))
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
