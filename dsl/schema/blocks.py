"""The blocks of the language and their attributes. The defaults are those of the records in `dsl/ir/`."""

from __future__ import annotations

from typing import Any, Literal, get_args

from attrs import NOTHING, fields_dict, frozen

from dsl import ir
from dsl.schema.hardware import TABLE as HARDWARE
from dsl.schema.types import (
    Type,
    boolean,
    call,
    duration,
    either,
    integer,
    keras,
    listing,
    number,
    numbers,
    path,
    period,
    size,
    string,
    word,
)


@frozen
class Attribute:
    """One attribute of a block, written `name = value`.

    Attributes:
        name: The name.
        type: The type of its value.
        doc: The description for the reference.
        required: Whether the block must have it.
    """

    name: str
    type: Type
    doc: str
    required: bool = False


@frozen
class Block:
    """A kind of block.

    Attributes:
        name: The word that it starts with.
        record: Its class in the IR, or None.
        attributes: Its attributes, in the order of the reference.
        doc: The description for the reference.
        label: Whether the block has a name of its own in quotes.
        inner: The kinds of blocks that may be inside it.
    """

    name: str
    record: type[Any] | None
    attributes: tuple[Attribute, ...]
    doc: str
    label: Literal["none", "required"] = "none"
    inner: tuple[str, ...] = ()

    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute with this name, or None."""
        return next((each for each in self.attributes if each.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(each.name for each in self.attributes)

    def default(self, name: str) -> Any:
        """Return the default of the attribute with this name, or None if it has none."""
        if self.record is None:
            return None
        default: Any = fields_dict(self.record)[name].default
        if default is NOTHING:
            return None
        return default.factory() if hasattr(default, "factory") else default


MANY = 2**31 - 1
"""The most of what is counted in a graph, such as micro-batches: TensorFlow counts much in 32 bits."""

_HARDWARE = (
    Attribute(
        "gpu_memory", size(optional=True), "memory of each GPU; `plan` warns if its forecast is higher"
    ),
    Attribute(
        "cpu_memory", size(optional=True), "memory of each machine; `plan` warns if its forecast is higher"
    ),
    Attribute(
        "link",
        size(optional=True),
        "bytes per second between two GPUs, or between two machines, for forecasts of time",
    ),
    Attribute(
        "kind",
        word(*HARDWARE, optional=True),
        "the hardware of the devices, for forecasts of time if nothing was measured",
    ),
)

BLOCKS: dict[str, Block] = {
    block.name: block
    for block in (
        Block("let", None, (), "named constants"),
        Block(
            "model",
            ir.Model,
            (
                Attribute(
                    "loss",
                    Type("any"),
                    "`[target, prediction] -> Loss()`, with weights as a third tensor, or a sum; tensors too",
                ),
                Attribute(
                    "regularize", keras("regularizer"), "a penalty on every kernel, added once per step"
                ),
                Attribute(
                    "output",
                    Type("any"),
                    "what the trained model returns, or `{ name = tensor }`; default: the predictions",
                ),
            ),
            "what one clone computes",
            label="required",
            inner=("metrics", "output"),
        ),
        Block(
            "output",
            None,
            (),
            "written `output = { name = tensor }`, what the trained model returns by names",
        ),
        Block(
            "metrics",
            None,
            (),
            "`name = [target, prediction] -> Metric()`, or with weights too",
        ),
        Block(
            "layer",
            ir.LayerBlock,
            (Attribute("output", Type("any"), "the tensor that the layer returns", required=True),),
            "a reusable part of a model",
            label="required",
        ),
        Block(
            "data",
            ir.Data,
            (
                Attribute("train", Type("any"), "the examples to train on"),
                Attribute("validation", Type("any"), "the examples for evaluations during training"),
                Attribute("test", Type("any"), "the examples for the last evaluation"),
                Attribute(
                    "per_clone",
                    word(*get_args(ir.PerClone)),
                    "`split`: slices of one stream; `shard`: a stream for each clone",
                ),
            ),
            "where the examples come from",
        ),
        Block(
            "devices",
            ir.Devices,
            (
                Attribute("gpu", integer(0, 4096), "how many GPUs this machine has"),
                Attribute("cpu", integer(1, 4096), "how many CPU devices this machine has"),
                *_HARDWARE,
                Attribute(
                    "soft_placement", boolean(), "let TensorFlow use another device if a device is missing"
                ),
                Attribute("allow_growth", boolean(), "let TensorFlow allocate GPU memory when it is needed"),
                Attribute("visible", listing(integer(0)), "the indices of the GPUs to use"),
                Attribute("log_placement", boolean(), "let TensorFlow log the device of every op"),
                Attribute(
                    "intra_op_threads",
                    integer(1, 4096, optional=True),
                    "threads for one op on a CPU; default: the number of cores divided among the towers, or "
                    "among the tasks of a machine",
                ),
                Attribute(
                    "inter_op_threads",
                    integer(1, 4096, optional=True),
                    "ops that a process runs at the same time; default: one for each core",
                ),
            ),
            "the devices to compute on",
            inner=("job",),
        ),
        Block(
            "job",
            ir.Job,
            (
                Attribute(
                    "tasks",
                    numbers(1, 100_000),
                    "how many tasks the job has; `2..8` if workers come and go while they train",
                ),
                Attribute("gpu", integer(0, 4096), "how many GPUs each task has"),
                Attribute("cpu", integer(1, 4096), "how many CPU devices each task has"),
                Attribute("hosts", listing(string()), "`host:port` of each task, instead of `tasks`"),
            ),
            "a job of a cluster",
            label="required",
        ),
        Block(
            "clones",
            ir.Clones,
            (
                Attribute(
                    "count",
                    integer(1, 100_000),
                    "how many clones; default: one for each device of the rule for clones",
                ),
                Attribute(
                    "batch",
                    either(integer(low=1), listing(integer(low=1))),
                    "examples per step for each clone, or a list with a number for each clone",
                ),
                Attribute(
                    "global_batch",
                    integer(low=1),
                    "examples per step for all clones together, instead of `batch`",
                ),
            ),
            "how many clones there are, and how many examples each gets per step",
        ),
        Block(
            "place",
            ir.Place,
            (),
            "`selector -> target`: what is placed where; the last rule that matches applies",
        ),
        Block(
            "update",
            ir.Update,
            (
                Attribute("mode", word(*get_args(ir.Mode)), "when gradients are applied"),
                Attribute("optimizer", keras("optimizer"), "the Keras optimizer; required to train"),
                Attribute(
                    "freeze", listing(string(filled=True)), "globs of weights that training does not change"
                ),
                Attribute(
                    "reduce",
                    word(*get_args(ir.Reduce)),
                    "whether the gradients of the clones are averaged or added",
                ),
                Attribute(
                    "aggregate", call("aggregation"), "the algorithm that sums the gradients of the clones"
                ),
                Attribute(
                    "pack", size(optional=True), "size of the buckets into which small gradients are packed"
                ),
                Attribute(
                    "compress",
                    call("compression", optional=True),
                    "how gradients that are sent from machine to machine are made smaller",
                ),
                Attribute("clip", call("clip", optional=True), "a bound on the gradients, after aggregation"),
                Attribute("accumulate", integer(1, MANY), "micro-batches per step"),
                Attribute(
                    "schedule",
                    word(*get_args(ir.PipelineSchedule), optional=True),
                    "how the devices of a clone's group work on several micro-batches at the same time",
                ),
                Attribute(
                    "recompute",
                    call("recomputation", optional=True),
                    "what of the forward pass is computed again in the backward pass, to save memory",
                ),
                Attribute(
                    "ema",
                    either(number(0, 1, open=True, optional=True), call("average"), optional=True),
                    "decay of the moving average of the weights, or `EMA(...)`",
                ),
                Attribute(
                    "batch_norm",
                    word(*get_args(ir.BatchNorm)),
                    "whose statistics become the moving averages of batch normalization",
                ),
                Attribute(
                    "precision",
                    word(*get_args(ir.Precision)),
                    "the data type of the computation",
                ),
                Attribute(
                    "replication",
                    word(*get_args(ir.Replication)),
                    "one graph for all workers, or one for each",
                ),
                Attribute("backup", integer(0, 100_000), "how many of the workers a step does not wait for"),
                Attribute(
                    "staleness",
                    integer(0, MANY, optional=True),
                    "how many updates the fastest clone may be ahead of the slowest",
                ),
                Attribute(
                    "average_every", integer(1, MANY), "steps between two averagings of the clones' weights"
                ),
                Attribute(
                    "average_slots", boolean(), "average the optimizer's slots together with the weights"
                ),
            ),
            "how the gradients of the clones become new weights",
            inner=("optimizer",),
        ),
        Block(
            "optimizer",
            None,
            (),
            '`"glob" -> optimizer`: the optimizer of the weights whose names match; the first rule that '
            "matches wins, and every trainable weight must have one",
        ),
        Block(
            "train",
            ir.Train,
            (
                Attribute("steps", integer(low=1), "how many steps to train"),
                Attribute("epochs", integer(low=1), "how often to go through the data"),
                Attribute("directory", path(), "the run directory"),
                Attribute("checkpoint_every", period(), "a number of steps or a duration"),
                Attribute("evaluate_every", period(), "a number of steps or a duration"),
                Attribute("keep", integer(1, MANY), "how many checkpoints are kept"),
                Attribute("log_every", integer(1, MANY), "steps between two records of the history"),
                Attribute(
                    "summaries",
                    word(*get_args(ir.Summaries)),
                    "what is written for TensorBoard",
                ),
                Attribute("track", call("tracker", optional=True), "where scores and files are sent as well"),
                Attribute(
                    "prometheus",
                    string(optional=True),
                    "the address, `HOST:PORT` or a port of this machine, where Prometheus reads how tasks do",
                ),
                Attribute("seed", integer(0, 2**31 - 1, optional=True), "the seed of all random numbers"),
                Attribute("deterministic", boolean(), "make two runs equal, bit for bit"),
                Attribute("weights", path(optional=True), "a file of weights to start from"),
                Attribute(
                    "best",
                    call("goal", optional=True),
                    "which evaluation is the best; its checkpoint is kept, tested and exported",
                ),
                Attribute(
                    "patience",
                    integer(1, MANY, optional=True),
                    "after how many evaluations in a row without improvement training ends",
                ),
                Attribute(
                    "task_timeout",
                    duration(),
                    "how long a task of a cluster may be missing before the run ends",
                ),
            ),
            "how long to train, and what to keep of it",
            inner=("weights",),
        ),
        Block("weights", None, (), '`"glob" -> "file"`: files of weights that parts of the model start from'),
        Block("expect", ir.Expect, (), "conditions that the compiled placement must meet"),
    )
}
"""Every block by name, inner ones included."""

ROOT = ("let", "model", "layer", "data", "devices", "clones", "place", "update", "train", "expect")
"""The names of the blocks at the top level of a spec."""

ROOT_ATTRIBUTES = (
    Attribute("tfdeploy", integer(low=1), "the version of the language, as the first item"),
    Attribute("include", listing(path()), "files whose blocks belong to this spec"),
)
