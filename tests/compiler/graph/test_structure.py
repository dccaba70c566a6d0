"""Every op of a graph, with all that TensorFlow knows of it, for each way to put a step together.

A golden file has a line for each part of a graph: the ops whose names begin alike, how many there are, and a
digest of the lines that `lines_of` returns for them. Whatever changes how graphs are made must leave these
files as they are. If one differs, write the lines of both graphs into files, and compare these.

The records of a step say of each op what TensorFlow says of it.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import pytest

from compiler.graph.compiled import CompiledGraph
from compiler.graph.fragments import recorded
from tests.graphs import graph_of
from tests.support import spec_of

MODEL = """
tfdeploy = 1
model "m" {{
  x = input(float32, [3])
  word = input(int32, [2])
  label = input(int32, [])
  found = {found}
  seen = x -> Dense(4, name = "first", kernel_regularizer = L2(0.1)) -> BatchNormalization(name = "norm")
  both = [found, seen] -> Concatenate(name = "both") -> Dropout(0.5, name = "drop")
  y = both -> Dense(5, name = "last")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
  metrics {{ accuracy = [label, y] -> SparseCategoricalAccuracy() }}
}}
devices {{ {devices} }}
clones {{ batch = {batch} }}
place {{ {place} }}
update {{ {update} }}
train {{ seed = 1 {train} }}
"""
SERVERS = 'job "ps" { tasks = 2 }\n job "worker" { tasks = 3 }'
SGD, ADAM = "optimizer = SGD(0.1)", "optimizer = Adam(0.1)"
COPIES, PIECES, SPREAD = (
    "variables -> replicated",
    "variables -> sharded(cpu[*])",
    "variables -> balanced(cpu[*])",
)
OVER_CLONES = f"{COPIES}\n slots -> sharded(clones)"
BETWEEN = f"replication = between_graph, {ADAM}"
SUMS = ("add_n", "tree", "hierarchical", "hierarchical(size = 1)", "ring", "shuffle", "shuffle(shards = 2)")

TABLE, DENSE = 'word -> Embedding(7, 2, name = "table") -> Flatten()', "ops.cast(word, float32)"

CASES: dict[str, tuple[str, ...]] = {
    # name: rules, update, and, if they are other than three CPUs, the devices, the batch, and more of `train`
    **{f"one_place {each}": (SPREAD, f"{SGD}, aggregate = {each}") for each in SUMS},
    **{f"copies {each}": (COPIES, f"{ADAM}, aggregate = {each}") for each in SUMS},
    **{f"packed {each}": (COPIES, f"{SGD}, aggregate = {each}, pack = 80B") for each in ("add_n", "ring")},
    "packed at one place": ("variables -> cpu[0]", f"{SGD}, aggregate = tree, pack = 80B"),
    "pieces": (PIECES, f"{ADAM}, aggregate = ring"),
    "pieces add_n": (PIECES, f"{SGD}, batch_norm = mean"),
    "slots over clones": (OVER_CLONES, f"{ADAM}, aggregate = ring"),
    "slots over clones add_n": (OVER_CLONES, f"{ADAM}, ema = 0.9, clip = global_norm(1)"),
    "slots over clones packed": (OVER_CLONES, f"{ADAM}, aggregate = shuffle, pack = 80B"),
    "slots elsewhere": ("variables -> cpu[0]\n slots -> cpu[1]\n updates -> cpu[2]", ADAM),
    "one clone": ("variables -> cpu[0]", f"{ADAM}, ema = 0.9", "cpu = 1"),
    "unequal": (SPREAD, SGD, "cpu = 3", "[4, 2, 3]"),
    "micro-batches": (SPREAD, f"{ADAM}, accumulate = 2"),
    "micro-batches of copies": (COPIES, f"{ADAM}, accumulate = 2, aggregate = ring"),
    "clipped": (SPREAD, f"{SGD}, clip = global_norm(1), ema = 0.9"),
    "clipped by value": (COPIES, f"{SGD}, clip = value(1), ema = 0.9"),
    "clipped by norm": (PIECES, f"{SGD}, clip = norm(1)"),
    "collective": (COPIES, f"{SGD}, aggregate = collective"),
    "collective packed": ("variables -> cpu[1]", f"{ADAM}, aggregate = collective, pack = 80B"),
    "synchronized": (SPREAD, f"{SGD}, batch_norm = synchronized"),
    "mean": (COPIES, f"{SGD}, batch_norm = mean"),
    "summed": (SPREAD, f"{SGD}, reduce = sum"),
    "float16": (COPIES, f"{SGD}, precision = mixed_float16"),
    "bfloat16": (SPREAD, f"{SGD}, precision = mixed_bfloat16"),
    "async": (SPREAD, f"{ADAM}, mode = async"),
    "async stale": (PIECES, f"{SGD}, mode = async, staleness = 2, ema = 0.9"),
    "local": ("", "optimizer = Momentum(0.1), mode = local, average_every = 2, average_slots = true"),
    "local ring": ("", f"{ADAM}, mode = local, average_every = 2, aggregate = ring"),
    "groups of weights": (COPIES, 'optimizer { "table*" -> Adagrad(0.1), "*" -> Nadam(0.1) }'),
    "summaries": (SPREAD, SGD, "cpu = 3", "4", ", summaries = all"),
    "servers": ("variables -> balanced(ps[*])", ADAM, SERVERS),
    "workers": ("variables -> balanced(ps[*])", BETWEEN, SERVERS),
    "workers packed": ("variables -> sharded(ps[*])", f"{BETWEEN}, ema = 0.9, backup = 1", SERVERS),
    "workers async": ("variables -> balanced(ps[*])", f"{BETWEEN}, mode = async", SERVERS),
    "workers clipped": ("", f"{BETWEEN}, ema = 0.9, backup = 1, clip = global_norm(1)", SERVERS),
    "copies on GPUs": (COPIES, f"{ADAM}, aggregate = ring", "cpu = 1\n gpu = 2", "4", ", summaries = all"),
}


def compiled_cases(name: str) -> Iterator[CompiledGraph]:
    """Yield the graph of a case, or those of the first two workers."""
    place, update, devices, batch, train = (*CASES[name], *("cpu = 3", "4", "")[len(CASES[name]) - 2 :])
    seen = DENSE if "collective" in update else TABLE
    given = {"devices": devices, "batch": batch, "place": place, "update": update, "train": train}
    spec = spec_of(MODEL.format(found=seen, **given))
    for worker in (0, 1) if "between_graph" in update else (0,):
        yield graph_of(spec, emulate=True, worker=worker)


def lines_of(graph: Any) -> list[str]:
    """Return a line for each op of a graph by name: its type, inputs, device, attributes.

    Attributes that begin with an underscore are marks of the function of TensorFlow that made the op.
    """
    found = []
    for node in sorted(graph.as_graph_def().node, key=lambda each: each.name):
        keys = [each for each in sorted(node.attr) if not each.startswith("_")]
        attributes = [(each, node.attr[each].SerializeToString(deterministic=True)) for each in keys]
        told = f"{node.op}({', '.join(node.input)}) at {node.device} with {_digest(repr(attributes))}"
        found.append(f"{node.name} = {told}\n")
    return found


def _parts(lines: Sequence[str]) -> str:
    """Return a line for each part of a graph: the ops that are alike in two levels of their names."""
    parts: dict[str, list[str]] = {}
    for each in lines:
        parts.setdefault("/".join(each.partition(" ")[0].split("/")[:-1][:2]), []).append(each)
    return "".join(f"{name or '-'} {len(each)} {_digest(''.join(each))}\n" for name, each in parts.items())


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()


def expect_records_of(compiled: CompiledGraph) -> None:
    """Expect the records of a step to be its graph, op for op and in their order.

    TensorFlow does not find all shapes in a loop of micro-batches, nor those of what follows from it.
    """
    real = compiled.graph.get_operations()
    records = compiled.ledger.ops
    assert [*records] == [op.name for op in real]
    looped: set[str] = set()
    for op in real:
        record = records[op.name]
        if op.type in {"Enter", "NextIteration"} or any(each.op.name in looped for each in op.inputs):
            looped.add(op.name)
        assert (record.name, record.type) == (op.name, op.type)
        assert [each.name for each in record.inputs] == [each.name for each in op.inputs], op.name
        assert {*record.waits} == {each.name for each in op.control_inputs}, op.name
        assert compiled.plan.tensorflow_device(record.placed.device) == op.device, op.name
        if op.name in looped:
            for found, tensor in zip(record.outputs, op.outputs, strict=True):
                tensor.set_shape(found.shape)
        made = [(each.name, each.dtype.name, recorded(each).shape) for each in op.outputs]
        assert [(each.name, each.dtype, each.shape) for each in record.outputs] == made


@pytest.mark.family(every=7)
@pytest.mark.parametrize("name", CASES)
def test_ops_of_a_graph(name: str, golden: Callable[[str, str], None]) -> None:
    """All of them, with what each is and takes; the records of the step say the same."""
    text = ""
    for compiled in compiled_cases(name):
        text += _parts(lines_of(compiled.graph))
        expect_records_of(compiled)
    golden(f"graphs/{name.replace(' ', '_')}.txt", text)


@pytest.mark.family(every=3)
@pytest.mark.parametrize("name", ["copies on GPUs", "local", "workers clipped"])
def test_names_of_ops_beside_the_towers(name: str, golden: Callable[[str, str], None]) -> None:
    """By them maps, traces and errors speak of all ops but first values; with types, roles and devices."""
    compiled = next(compiled_cases(name))
    found = [
        f"{op.name} {op.type} {entry.role} {entry.device.ref}\n"
        for op in compiled.graph.get_operations()
        if "/Initializer/" not in op.name
        and (
            (entry := compiled.ledger.entries[op.name]).clone is None
            or entry.role not in {"forward", "gradient"}
        )
    ]
    golden(f"names/{name.replace(' ', '_')}.txt", "".join(sorted(found)))


@pytest.mark.parametrize(
    "rules", ["variables -> balanced(ps[*])", "variables -> balanced(worker[*])\n updates -> worker[0]"]
)
def test_what_is_of_a_worker_is_where_its_own_graph_has_it(rules: str) -> None:
    """An op that is its own is on the devices of the worker, and any other where the chief has it, too."""
    given = {"found": TABLE, "devices": SERVERS, "batch": 4, "place": rules, "update": BETWEEN, "train": ""}
    spec = spec_of(MODEL.format(**given))
    chief, other = (graph_of(spec, worker=each, seed=0).step for each in (0, 1))
    assert chief.homes == other.homes
    assert chief.homes >= {op.device.host for op in chief.ops.values() if op.type == "ResourceApplyAdam"}
    own = {("worker", 0): ("worker", 1)}
    common = [name for name in chief.ops if name in other.ops and "cluster/" not in name]
    for name in common:
        op, twin = chief.ops[name], other.ops[name]
        wanted = own.get(op.device.host, op.device.host) if op.own else op.device.host
        assert (name, twin.device.host) == (name, wanted)
    assert chief.ends.only_chief
    assert not other.ends.of_chief
