"""Records of `data`, `update` and `train`, of a whole spec, and of what could be read of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from attrs import field, frozen

from dsl.ir.base import Block, Call, Node
from dsl.ir.model import Binding, LayerBlock, Model
from dsl.ir.place import Clones, DevicePattern, Devices, Expect, Place
from dsl.shown import Shown
from dsl.source import Span

SplitName: TypeAlias = Literal["train", "validation", "test"]
SPLITS: tuple[SplitName, ...] = get_args(SplitName)
PerClone: TypeAlias = Literal["split", "shard"]
Mode: TypeAlias = Literal["sync", "async", "local"]
Reduce: TypeAlias = Literal["mean", "sum"]
BatchNorm: TypeAlias = Literal["first", "mean", "synchronized"]
Precision: TypeAlias = Literal["float32", "mixed_bfloat16", "mixed_float16"]
PipelineSchedule: TypeAlias = Literal["gpipe", "one_f_one_b"]
Replication: TypeAlias = Literal["in_graph", "between_graph"]
Summaries: TypeAlias = Literal["none", "scalars", "gradients", "all"]


@frozen
class Split(Node):
    """One split of the data, written `train = source(...) -> transform(...)`."""

    name: SplitName
    source: Call
    transforms: tuple[Call, ...] = ()


@frozen
class Data(Block):
    """The `data` block."""

    train: Split | None = None
    validation: Split | None = None
    test: Split | None = None
    # `split` cuts each global batch into one piece for each clone; `shard` gives each clone its own examples.
    per_clone: PerClone = "split"


@frozen
class Averaging:
    """The moving averages of the weights."""

    decay: float  # the share of the old average that each update keeps, between 0 and 1
    # Whether the first updates keep less, so that the first weights are forgotten sooner.
    warm_up: bool = False


@frozen
class OptimizerRule(Node):
    """The optimizer of the weights whose names match a glob, unless a rule before it matches them."""

    pattern: str
    optimizer: Call
    name_span: Span | None = field(default=None, eq=False, repr=False, kw_only=True)


@frozen
class Update(Block):
    """How the gradients of the clones become new weights.

    The attributes are those of the block `update`, which `dsl/schema/blocks.py` describes. `pack` is in
    bytes. There is one `optimizer` for all weights, or `groups` of weights with their own.
    """

    mode: Mode = "sync"
    optimizer: Call | None = None
    freeze: tuple[str, ...] | None = None
    reduce: Reduce = "mean"
    aggregate: Call = field(factory=lambda: Call("add_n"))
    pack: int | None = None
    compress: Call | None = None
    clip: Call | None = None
    accumulate: int = 1
    schedule: PipelineSchedule | None = None
    recompute: Call | None = None
    ema: float | Call | None = None
    batch_norm: BatchNorm = "first"
    precision: Precision = "float32"
    replication: Replication | None = None
    backup: int = 0
    staleness: int | None = None
    average_every: int | None = None
    average_slots: bool = False
    groups: tuple[OptimizerRule, ...] = ()

    @property
    def optimizers(self) -> tuple[OptimizerRule, ...]:
        """The optimizer of each group of weights; of all weights if there is one optimizer."""
        if self.optimizer is None:
            return self.groups
        return (OptimizerRule("*", self.optimizer, span=self.optimizer.span),)

    @property
    def recomputed_scopes(self) -> str | None:
        """The glob of the layers that are computed again in the backward pass; None if there is none."""
        if self.recompute is None or self.recompute.name != "scopes":
            return None
        return str((*self.recompute.args, *self.recompute.kwargs.values())[0])

    @property
    def recompute_limit(self) -> int | None:
        """The bytes below which recomputation is to keep devices with clones; None if it is not to."""
        if self.recompute is None or self.recompute.name != "memory":
            return None
        limit = (*self.recompute.args, *self.recompute.kwargs.values())[0]
        assert isinstance(limit, int)
        return limit

    @property
    def awaits_all_gradients(self) -> bool:
        """Whether no weight changes before there are the gradients of all."""
        clips = self.clip is not None and self.clip.name == "global_norm"
        return clips or self.precision == "mixed_float16"

    @property
    def averaging(self) -> Averaging | None:
        """How the moving averages of the weights move; None if there are none."""
        if not isinstance(self.ema, Call):
            return None if self.ema is None else Averaging(self.ema)
        decay = self.ema.args[0] if self.ema.args else self.ema.kwargs["decay"]
        assert isinstance(decay, int | float)
        return Averaging(decay, bool(self.ema.kwargs.get("warm_up", False)))


@frozen
class Every(Node):
    """A period: a count of steps, or a time."""

    steps: int | None = None
    seconds: float | None = None


@frozen
class PartWeights(Node):
    """A rule of the block `weights` in `train`: a part of the model starts from a file."""

    pattern: str  # a glob of the names of the weights of the part
    file: str  # the file, relative to the folder of the spec


@frozen
class Train(Block):
    """How long to train, and what to keep of it.

    The attributes are those of the block `train`, which `dsl/schema/blocks.py` describes. `task_timeout` is
    in seconds. `part_weights` are the rules of the block `weights`; the last one that matches applies.
    """

    steps: int | None = None
    epochs: int | None = None
    directory: str | None = None
    checkpoint_every: Every | None = None
    evaluate_every: Every | None = None
    keep: int = 5
    log_every: int = 10
    summaries: Summaries = "scalars"
    track: Call | None = None
    prometheus: str | None = None
    seed: int | None = None
    deterministic: bool = False
    weights: str | None = None
    part_weights: tuple[PartWeights, ...] = ()
    best: Call | None = None
    patience: int | None = None
    task_timeout: float = 600.0


@frozen
class Spec(Shown, Node):
    """A whole spec."""

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
    sha256: str = field(default="", eq=False)  # the SHA-256 of the file's bytes, in hexadecimal
    includes: tuple[str, ...] = field(default=(), eq=False)  # the files that it includes, also through others
    # The folder from which the paths above and that of the run directory start, if that is not always the
    # current one.
    folder: str = field(default="", eq=False, repr=False)


@frozen
class Facts:
    """The parts of a spec that could be read. A block that is not in the spec is its record of defaults."""

    where: Span
    # The `model` block, or None if it has errors; the same holds for the other blocks.
    model: Model | None = None
    layers: tuple[LayerBlock, ...] | None = ()
    data: Data | None = None
    devices: Devices | None = field(factory=Devices)
    clones: Clones | None = field(factory=Clones)
    place: Place | None = field(factory=Place)
    update: Update | None = field(factory=Update)
    train: Train | None = field(factory=Train)
    expect: Expect | None = field(factory=Expect)
    patterns: tuple[DevicePattern, ...] = ()
    inputs: tuple[Binding, ...] = ()
    splits: tuple[Split, ...] = ()
    # The names of the constants in `let`, each with its place.
    constants: Mapping[str, Span] = field(factory=dict)
    used: frozenset[str] = frozenset()  # the names of the constants that are used
    used_layers: frozenset[str] = frozenset()  # the names of the `layer` blocks that are used

    @property
    def blocks(self) -> tuple[Model | LayerBlock, ...]:
        """The `model` block and the `layer` blocks, as far as they have no errors."""
        return (*(() if self.model is None else (self.model,)), *(self.layers or ()))
