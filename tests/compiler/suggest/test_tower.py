"""A tower is split where little is sent, and the rules say so."""

from collections.abc import Sequence
from itertools import product

import pytest
from attrs import evolve, frozen

from compiler.plan import Tower
from compiler.reasons import Reason
from compiler.suggest.tower import (
    REST,
    Layer,
    balanced_stages,
    read_layers,
    rules_of,
    split_tower,
    variable_rules_of,
)
from compiler.suggest.variations import variable_rules
from compiler.time.costs import Cost
from compiler.time.work import Arrow, Signature, StepWork, TimedOp
from compiler.topology import Device, declare
from dsl import ir
from tests.compiler.time.steps import Machine

GPUS = (Device("gpu", 0), Device("gpu", 1))
TOWER = Tower(0, "clone_0", GPUS, 4, Reason("clones", "rule"))
LAYERS = ("first", "second", "third", "fourth")


@frozen
class Costs(Machine):
    """A second for each ten operations, a second for each byte of a transfer."""

    cores: int = 1
    estimate: bool = True
    speed: float | None = 1.0

    def of(self, op: TimedOp) -> Cost:
        """Return the cost of an op."""
        return Cost(0.0, op.flops / 10, op.flops / 10, op.flops / 10)


def chain(sent: dict[str, int]) -> StepWork:
    """Return four layers in a chain, each with a gradient; `sent` has the bytes of what is not one byte."""
    names = ["clone_0/input/take", *(f"clone_0/{each}/MatMul" for each in LAYERS)]
    names += [f"clone_0/gradients/{each}/MatMul_grad" for each in reversed(LAYERS)]
    kind = Signature("MatMul", ())
    ops = [TimedOp(name, kind, GPUS[0], 10 if at else 0, 0, clone=0) for at, name in enumerate(names)]
    ops.append(TimedOp("clone_1/first/MatMul", kind, GPUS[0], 10_000, 0, clone=1))
    arrows = [
        Arrow(at, at + 1, f"{name}:0", sent.get(name.removeprefix("clone_0/"), 1))
        for at, name in enumerate(names[:-1])
    ]
    return StepWork(tuple(ops), tuple(arrows), GPUS)


def test_layers_have_their_gradients_and_variables() -> None:
    """A layer takes the time of its forward and gradient ops, and the bytes of outputs and variables."""
    layers = read_layers(chain({"second/MatMul": 7}), Costs(), TOWER, {"second/kernel": 100, "step": 3})
    assert {name: each.seconds for name, each in layers.items()} == {REST: 0.0, **dict.fromkeys(LAYERS, 2.0)}
    assert layers["second"].bytes == 107
    assert layers[REST].bytes == 1 + 3
    assert [(each.backward, list(each.readers)) for each in layers["second"].tensors] == [
        (False, ["third"]),
        (True, ["first"]),
    ]


def test_a_tower_is_cut_where_little_is_sent() -> None:
    """The cut is where few bytes are sent, and inputs stay on the first device."""
    layers = read_layers(chain({"first/MatMul": 50, "third/MatMul": 50}), Costs(), TOWER, {})
    places = split_tower(layers, Costs(), TOWER, by_bytes=False, capacity=1 << 40)
    assert places == {REST: 0, "first": 0, "second": 0, "third": 1, "fourth": 1}
    assert rules_of(places) == ('ops("third/*") -> group[1]', 'ops("fourth/*") -> group[1]')
    assert variable_rules_of(places, ["fourth/kernel", "first/kernel"]) == (
        "variables -> group[0]",
        'variables("fourth/*") -> group[1]',
    )


def test_memory_is_divided_equally() -> None:
    """For memory, what counts are bytes: the layer with half of them is alone on its device."""
    sizes = {"fourth/kernel": 90, "second/kernel": 85, "first/kernel": 5}
    layers = read_layers(chain({}), Costs(), TOWER, sizes)
    places = split_tower(layers, Costs(), TOWER, by_bytes=True, capacity=1 << 40)
    assert len({places["second"], places["fourth"]}) == 2
    assert places[REST] == 0


def test_pieces_are_tried_where_whole_variables_cannot_be_shared_out_evenly() -> None:
    """That is where a device would have more than a hundredth more than an equal share."""
    local = declare(ir.Devices(gpu=2, cpu=3), 0)

    def cut(*sizes: int) -> list[str]:
        return [rule for rule in variable_rules(local, sizes) if "sharded" in rule]

    on_cpus, on_gpus = "variables -> sharded(cpu[*])", "variables -> sharded(gpu[*])"
    assert cut() == [on_cpus, on_gpus]
    assert cut(100, 20, 30) == [on_cpus, on_gpus]
    assert cut(60, 20, 40) == [on_cpus]
    assert cut(99, 101, 100) == [on_gpus]
    assert cut(98, 102, 100, 300, 303) == [on_gpus]
    assert cut(60, 60, 60, 60, 60, 61) == []


@pytest.mark.parametrize(
    ("seconds", "devices", "stages"),
    [
        ((1, 1, 1, 1), 2, (0, 0, 1, 1)),
        ((1, 1, 1, 3), 2, (0, 0, 0, 1)),
        ((5, 1, 1, 1, 1, 1), 2, (0, 1, 1, 1, 1, 1)),
        ((1, 2, 3, 1, 2, 3), 3, (0, 0, 1, 1, 2, 2)),
        ((4,), 2, (0,)),
    ],
)
def test_stages_of_a_pipeline_take_about_equally_long(
    seconds: tuple[int, ...], devices: int, stages: tuple[int, ...]
) -> None:
    """Layers stay in their order, and the longest stage is as short as in any of all ways to cut them."""
    names = [f"layer_{at}" for at in range(len(seconds))]
    layers = {REST: Layer(), **{name: Layer(each) for name, each in zip(names, seconds, strict=True)}}
    found = balanced_stages(layers, devices)
    numbers = [found[each] for each in names]
    assert numbers == sorted(numbers)

    def longest(of: Sequence[int]) -> float:
        sums = [0] * devices
        for number, each in zip(of, seconds, strict=True):
            sums[number] += each
        return max(sums)

    every = product(range(devices), repeat=len(seconds))
    assert longest(numbers) == min(longest(each) for each in every if list(each) == sorted(each))
    assert longest(numbers) == longest(stages)


def test_layers_of_a_pipeline_have_the_time_of_all_micro_batches() -> None:
    """Their names have no micro-batch, so that rules match all of them."""
    kind, piped = Signature("MatMul", ()), evolve(TOWER, piped=2)
    names = [piped.of_batch(f"{each}/MatMul", number) for number in (0, 1) for each in LAYERS]
    ops = [TimedOp(name, kind, GPUS[0], 10, 0, clone=0) for name in names]
    layers = read_layers(StepWork(tuple(ops), (), GPUS), Costs(), piped, {})
    assert {name: each.seconds for name, each in layers.items()} == {REST: 0.0, **dict.fromkeys(LAYERS, 2.0)}
