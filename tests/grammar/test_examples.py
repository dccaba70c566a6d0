"""The specs that ship with the project, read whole."""

import grammar
from dsl import ir
from tests.folders import EXAMPLES


def test_digits_reads_to_its_ir() -> None:
    """Every block of the digits spec arrives in the IR with names looked up and constants folded."""
    spec = grammar.load(EXAMPLES / "digits.tfdeploy")
    image, digit, logits = spec.model.bindings
    pair = ir.Ref("digit"), ir.Ref("logits")
    assert image == ir.Binding("image", ir.Input("float32", (8, 8, 1)))
    assert digit == ir.Binding("digit", ir.Input("int32", ()))
    assert [step.call for step in logits.value.steps] == [
        ir.Call("Conv2D", (32, 3), {"padding": "same", "activation": "relu", "name": "conv1"}),
        ir.Call("MaxPooling2D", (2,)),
        ir.Call("Flatten"),
        ir.Call("Dropout", (0.25,)),
        ir.Call("Dense", (10,), {"name": "logits"}),
    ]
    loss = ir.Objective(*pair, ir.Call("SparseCategoricalCrossentropy", (), {"from_logits": True}))
    assert spec.model.loss == (ir.LossTerm(loss, 1.0),)
    assert spec.model.regularize == ir.Call("L2", (1e-4,))
    assert spec.devices == ir.Devices(cpu=2)
    assert spec.clones == ir.Clones(count=2, batch=32)
    assert spec.update.optimizer == ir.Call(
        "Adam",
        (),
        {"learning_rate": ir.Call("ExponentialDecay", (2e-3,), {"decay_steps": 64, "decay_rate": 0.99})},
    )
    assert spec.update.aggregate == ir.Call("add_n")
    assert [rule.selector.role for rule in spec.place.rules] == ["clones", "variables", "inputs"]
    assert spec.place.rules[0].target == ir.DeviceSet((ir.DevicePattern("cpu"),))


def test_cifar10_reads_without_a_diagnostic() -> None:
    """The CIFAR-10 spec with its GPUs and averaged weights gives nothing to complain about."""
    reading = grammar.read(EXAMPLES / "cifar10.tfdeploy")
    assert list(reading.diagnostics) == []
    assert reading.spec.devices.gpu == 3
    assert reading.spec.update.ema == 0.99


def test_overrides_reach_attributes_constants_and_arguments() -> None:
    """`--set` replaces a constant, an attribute, a string, an argument by position and one inside a flow."""
    spec = grammar.load(
        EXAMPLES / "digits.tfdeploy",
        [
            ("let.towers", "4"),
            ("train.steps", "10"),
            ("train.directory", "runs/4 towers"),
            ("update.optimizer.learning_rate.initial_learning_rate", "1 / 10"),
            ("data.train.shuffle.buffer", "7"),
            ("train.steps", "20"),
        ],
    )
    assert spec.clones.count == 4
    assert spec.devices.cpu == 4
    assert spec.train.steps == 20
    assert spec.train.directory == "runs/4 towers"
    assert spec.update.optimizer.kwargs["learning_rate"] == ir.Call(
        "ExponentialDecay", (0.1,), {"decay_steps": 64, "decay_rate": 0.99}
    )
    assert spec.data.train.transforms[-1] == ir.Call("shuffle", (7,))
