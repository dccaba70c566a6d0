"""The IR: a whole spec as frozen records, after names are resolved, constants folded and defaults filled in.

Every record carries the span it came from; spans do not take part in equality, so two specs that mean the
same are equal. `block.span_of("attribute")` is where a value was written, or the block where it is a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import field, frozen

from dsl.source import Span


@frozen
class Node:
    """What every record of the IR has: where it was written (none for a default)."""

    span: Span | None = field(default=None, eq=False, repr=False, kw_only=True)


@frozen
class Block(Node):
    """A block of the spec. `spans` maps each attribute that was written to the span of its value."""

    spans: Mapping[str, Span] = field(factory=dict, eq=False, repr=False, kw_only=True)

    def span_of(self, attribute: str) -> Span | None:
        """Return where the value of `attribute` was written, else the span of the block."""
        return self.spans.get(attribute, self.span)


# --- values -----------------------------------------------------------------------------------------------


@frozen
class Parameter(Node):
    """A `layer` block's parameter, used in one of its expressions."""

    name: str


@frozen
class Arithmetic(Node):
    """`left operator right` over layer parameters; everything else is folded when it is read."""

    operator: Literal["+", "-", "*", "/", "negate"]
    left: Value
    right: Value | None = None


@frozen
class Call(Node):
    """`name(args, key = value)`: a Keras object, a source, a transform, an aggregation.

    `name` is dotted where it was written so (`applications.ResNet50`). `signature` of the schema says
    which argument a position means.
    """

    name: str
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(factory=dict)
    name_span: Span | None = field(default=None, eq=False, repr=False, kw_only=True)
    arg_spans: tuple[Span, ...] = field(default=(), eq=False, repr=False, kw_only=True)
    kwarg_spans: Mapping[str, Span] = field(factory=dict, eq=False, repr=False, kw_only=True)


Value: TypeAlias = "int | float | bool | str | tuple[Value, ...] | Call | Parameter | Arithmetic | None"


# --- model ------------------------------------------------------------------------------------------------


@frozen
class Input(Node):
    """`x = input(dtype, [shape])`; `shape` is without the batch axis, both None in a `layer` block."""

    dtype: str | None
    shape: tuple[int, ...] | None


@frozen
class Ref(Node):
    """A binding of the same block, by name."""

    name: str


@frozen
class Group(Node):
    """`[a, b]`: several tensors given to one step."""

    items: tuple[Expr, ...]


@frozen
class Step(Node):
    """One `-> Name(...)` of a flow. `kind` says what the name was found to be.

    `layer` a Keras layer class, `application` a model of `keras.applications`, `block` a `layer` block of
    the spec, `shared` a `layer(...)` binding, `repeat` a chain of `count` copies of its `inner`
    step, `python` an imported function that makes a layer.
    """

    kind: Literal["layer", "application", "block", "shared", "repeat", "python"]
    call: Call
    count: Value = 1
    inner: Step | None = None


@frozen
class Flow(Node):
    """`source -> step -> step`."""

    source: Expr
    steps: tuple[Step, ...]


Expr: TypeAlias = "Ref | Group | Flow"


@frozen
class SharedLayer(Node):
    """`shared = layer(Dense(64))`: one layer whose uses share its weights."""

    step: Step


@frozen
class Binding(Node):
    """`name = value` in a model or a `layer` block."""

    name: str
    value: Input | SharedLayer | Ref | Group | Flow
    name_span: Span | None = field(default=None, eq=False, repr=False, kw_only=True)


@frozen
class Objective(Node):
    """`[target, prediction] -> Keras loss or metric`, in that order of arguments."""

    target: Expr
    prediction: Expr
    call: Call


@frozen
class LossTerm(Node):
    """A loss and the factor with which it is added to the others."""

    objective: Objective
    weight: float = 1.0


@frozen
class Metric(Node):
    """A named Keras metric."""

    name: str
    objective: Objective


@frozen
class Model(Block):
    """What one clone computes."""

    name: str
    bindings: tuple[Binding, ...] = ()
    loss: tuple[LossTerm, ...] = ()
    regularize: Call | None = None
    metrics: tuple[Metric, ...] = ()
    output: Expr | None = None


@frozen
class LayerParameter(Node):
    """`filters = parameter(int)` of a `layer` block; `default` counts where `has_default`."""

    name: str
    type: str
    default: Value = None
    has_default: bool = False


@frozen
class LayerBlock(Block):
    """`layer "name" { ... }`: a reusable piece of a model."""

    name: str
    parameters: tuple[LayerParameter, ...] = ()
    bindings: tuple[Binding, ...] = ()
    output: Expr | None = None


# --- data -------------------------------------------------------------------------------------------------


@frozen
class Split(Node):
    """`train = source(...) -> transform(...)`: where the examples of a split come from."""

    name: Literal["train", "validation", "test"]
    source: Call
    transforms: tuple[Call, ...] = ()


@frozen
class Data(Block):
    """The splits there are, and how the training stream is dealt out to the clones."""

    train: Split | None = None
    validation: Split | None = None
    test: Split | None = None
    per_clone: Literal["split", "shard"] = "split"


# --- devices and clones -----------------------------------------------------------------------------------


@frozen
class Job(Block):
    """`job "worker" { tasks = 4, gpu = 8 }`. `hosts` is empty where the tasks have no fixed addresses."""

    name: str
    tasks: int = 1
    gpu: int = 0
    cpu: int = 1
    hosts: tuple[str, ...] = ()


@frozen
class Devices(Block):
    """What there is. `gpu` and `cpu` count this machine's; None means as many as are found."""

    gpu: int | None = None
    cpu: int | None = None
    jobs: tuple[Job, ...] = ()
    gpu_memory: int | None = None
    cpu_memory: int | None = None
    link: int | None = None
    soft_placement: bool = False
    allow_growth: bool = True
    visible: tuple[int, ...] | None = None
    log_placement: bool = False


@frozen
class Clones(Block):
    """How many towers, and their examples per step: `batch` (one, or one per clone) or `global_batch`."""

    count: int | None = None
    batch: int | tuple[int, ...] | None = None
    global_batch: int | None = None


# --- place ------------------------------------------------------------------------------------------------


@frozen
class Selector(Node):
    """What a rule takes; `pattern` is a glob where the selector has one."""

    role: Literal["clones", "variables", "slots", "inputs", "updates", "ops", "summaries", "evaluation"]
    pattern: str | None = None


@frozen
class DevicePattern(Node):
    """`worker[1].gpu[0..3]`; an index set of None is `*`, a job of None this machine or every worker."""

    kind: Literal["gpu", "cpu"]
    indices: tuple[int, ...] | None = None
    job: str | None = None
    tasks: tuple[int, ...] | None = None


@frozen
class DeviceSet(Node):
    """Devices in the order in which they are used."""

    patterns: tuple[DevicePattern, ...]


@frozen
class Balanced(Node):
    """Largest variable first to the least loaded device."""

    devices: DeviceSet


@frozen
class RoundRobin(Node):
    """Variables in creation order, one device after the other."""

    devices: DeviceSet


@frozen
class Replicated(Node):
    """A copy of each variable on the device of every clone."""


@frozen
class Groups(Node):
    """Each clone owns `size` devices of the set."""

    devices: DeviceSet
    size: int


@frozen
class GroupMember(Node):
    """`group[k]`: device k of the clone's own group."""

    index: int


Target: TypeAlias = "DeviceSet | Balanced | RoundRobin | Replicated | Groups | GroupMember"


@frozen
class Rule(Node):
    """`selector -> target`."""

    selector: Selector
    target: Target


@frozen
class Place(Block):
    """The rules in the order in which they were written; the last one that matches wins."""

    rules: tuple[Rule, ...] = ()


# --- update, train, expect --------------------------------------------------------------------------------


@frozen
class Update(Block):
    """How the gradients of the clones become new weights. `pack` is in bytes."""

    mode: Literal["sync", "async", "local"] = "sync"
    optimizer: Call | None = None
    reduce: Literal["mean", "sum"] = "mean"
    aggregate: Call = field(factory=lambda: Call("add_n"))
    pack: int | None = None
    clip: Call | None = None
    accumulate: int = 1
    ema: float | None = None
    batch_norm: Literal["first", "mean", "synchronized"] = "first"
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    replication: Literal["in_graph", "between_graph"] | None = None
    backup: int = 0
    staleness: int | None = None
    average_every: int | None = None


@frozen
class Every(Node):
    """A period: a count of steps, or a time in seconds."""

    steps: int | None = None
    seconds: float | None = None


@frozen
class Train(Block):
    """How long to train, and what to keep of it."""

    steps: int | None = None
    epochs: int | None = None
    directory: str | None = None
    checkpoint_every: Every | None = None
    evaluate_every: Every | None = None
    keep: int = 5
    log_every: int = 10
    summaries: Literal["none", "scalars", "gradients", "all"] = "scalars"
    seed: int | None = None
    deterministic: bool = False
    weights: str | None = None


@frozen
class Condition(Node):
    """`traffic(cpu[0], gpu[*]) <= 500MiB`; bytes, or a fraction for a percentage."""

    function: Literal["imbalance", "memory", "traffic", "ops"]
    arguments: tuple[DeviceSet | str, ...]
    operator: Literal["<=", "<", ">=", ">", "=="]
    value: float
    text: str = field(default="", eq=False)


@frozen
class Expect(Block):
    """Conditions that the compiled placement must meet."""

    conditions: tuple[Condition, ...] = ()


@frozen
class Spec(Node):
    """A whole spec. `path` is the file it was read from, `sha256` of that file's bytes."""

    model: Model
    version: int = 1
    layers: tuple[LayerBlock, ...] = ()
    data: Data | None = None
    devices: Devices = field(factory=Devices)
    clones: Clones = field(factory=Clones)
    place: Place = field(factory=Place)
    update: Update = field(factory=Update)
    train: Train = field(factory=Train)
    expect: Expect = field(factory=Expect)
    path: str = field(default="", eq=False)
    sha256: str = field(default="", eq=False)
