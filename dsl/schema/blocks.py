"""The blocks of the language and their attributes. Defaults are those of the IR's records."""

from __future__ import annotations

from typing import Any, Literal

from attrs import NOTHING, fields_dict, frozen

from dsl import ir
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
    period,
    size,
    string,
    word,
)


@frozen
class Attribute:
    """`name = value` of a block."""

    name: str
    type: Type
    doc: str
    required: bool = False


@frozen
class Block:
    """A block: `record` is its class in the IR, `label` whether it bears a name in quotes."""

    name: str
    record: type[Any] | None
    attributes: tuple[Attribute, ...]
    doc: str
    label: Literal["none", "required"] = "none"
    inner: tuple[str, ...] = ()

    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute called `name`, or None."""
        return next((each for each in self.attributes if each.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(each.name for each in self.attributes)

    def default(self, name: str) -> Any:
        """Return the default of the attribute called `name`; None also where it has none."""
        if self.record is None:
            return None
        default: Any = fields_dict(self.record)[name].default
        if default is NOTHING:
            return None
        return default.factory() if hasattr(default, "factory") else default


_HARDWARE = (
    Attribute("gpu_memory", size(optional=True), "memory of one GPU; forecasts above it are told of"),
    Attribute("cpu_memory", size(optional=True), "memory of one machine, likewise"),
    Attribute(
        "link",
        size(optional=True),
        "bytes per second between two devices, for a forecast to come; no effect yet",
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
                Attribute("loss", Type("any"), "`[target, prediction] -> Loss()`, or a weighted sum of such"),
                Attribute(
                    "regularize", keras("regularizer"), "a penalty on every kernel, counted once per step"
                ),
                Attribute(
                    "output", Type("any"), "what evaluation and export return; default: the prediction"
                ),
            ),
            "what one clone computes",
            label="required",
            inner=("metrics",),
        ),
        Block("metrics", None, (), "`name = [target, prediction] -> Metric()`"),
        Block(
            "layer",
            ir.LayerBlock,
            (Attribute("output", Type("any"), "what the layer gives", required=True),),
            "a reusable piece of a model",
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
                    "per_clone", word("split", "shard"), "slices of one stream, or a stream for each clone"
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
                    "soft_placement", boolean(), "let TensorFlow use another device where one is not there"
                ),
                Attribute("allow_growth", boolean(), "let TensorFlow take GPU memory as it needs it"),
                Attribute("visible", listing(integer(0)), "the numbers of the GPUs to use"),
                Attribute("log_placement", boolean(), "let TensorFlow log where every op goes"),
                Attribute(
                    "intra_op_threads",
                    integer(1, 4096, optional=True),
                    "threads that work on one op of a CPU; default: the cores, shared by the towers",
                ),
                Attribute(
                    "inter_op_threads",
                    integer(1, 4096, optional=True),
                    "ops that a process runs at a time; default: one for each core",
                ),
            ),
            "what there is to compute on",
            inner=("job",),
        ),
        Block(
            "job",
            ir.Job,
            (
                Attribute("tasks", integer(1, 100_000), "how many tasks the job has"),
                Attribute("gpu", integer(0, 4096), "how many GPUs each task has"),
                Attribute("cpu", integer(1, 4096), "how many CPU devices each task has"),
                Attribute("hosts", listing(string()), "`host:port` of each task, in place of `tasks`"),
            ),
            "a job of a cluster",
            label="required",
        ),
        Block(
            "clones",
            ir.Clones,
            (
                Attribute(
                    "count", integer(1, 100_000), "how many towers; default: one per device for clones"
                ),
                Attribute(
                    "batch",
                    either(integer(low=1), listing(integer(low=1))),
                    "examples per clone and step, or a list with one figure per clone",
                ),
                Attribute("global_batch", integer(low=1), "examples of all clones per step"),
            ),
            "how many towers, and how many examples each takes",
        ),
        Block(
            "place", ir.Place, (), "`selector -> target`: what goes where; the last rule that matches wins"
        ),
        Block(
            "update",
            ir.Update,
            (
                Attribute("mode", word("sync", "async", "local"), "when gradients are applied"),
                Attribute(
                    "optimizer", keras("optimizer"), "how weights follow from gradients; required to train"
                ),
                Attribute("reduce", word("mean", "sum"), "how the gradients of the clones are joined"),
                Attribute("aggregate", call("aggregation"), "the way the gradients of the clones are summed"),
                Attribute(
                    "pack", size(optional=True), "size of the buckets that small gradients are packed into"
                ),
                Attribute("clip", call("clip", optional=True), "a bound on the gradients, after aggregation"),
                Attribute("accumulate", integer(low=1), "micro-batches per step"),
                Attribute(
                    "ema",
                    either(number(0, 1, open=True, optional=True), call("average"), optional=True),
                    "decay of the moving average of the weights, or `EMA(...)`",
                ),
                Attribute("batch_norm", word("first", "mean", "synchronized"), "whose statistics are kept"),
                Attribute(
                    "precision",
                    word("float32", "mixed_bfloat16", "mixed_float16"),
                    "the type to compute with",
                ),
                Attribute(
                    "replication", word("in_graph", "between_graph"), "one graph for all, or one per worker"
                ),
                Attribute("backup", integer(0), "workers beyond those that a step waits for"),
                Attribute("staleness", integer(0, optional=True), "steps that the fastest may be ahead"),
                Attribute("average_every", integer(low=1), "steps between two averagings of the copies"),
                Attribute("average_slots", boolean(), "average the optimizer's slots along with the copies"),
            ),
            "how the gradients of the clones become new weights",
        ),
        Block(
            "train",
            ir.Train,
            (
                Attribute("steps", integer(low=1), "how many steps to train"),
                Attribute("epochs", integer(low=1), "how often to go through the data"),
                Attribute("directory", string(filled=True), "the run directory"),
                Attribute("checkpoint_every", period(), "a count of steps or a duration"),
                Attribute("evaluate_every", period(), "a count of steps or a duration"),
                Attribute("keep", integer(low=1), "how many checkpoints are kept"),
                Attribute("log_every", integer(low=1), "steps between two lines of the history"),
                Attribute("summaries", word("none", "scalars", "gradients", "all"), "what TensorBoard gets"),
                Attribute("seed", integer(0, 2**31 - 1, optional=True), "the seed of all random numbers"),
                Attribute("deterministic", boolean(), "make two runs equal bit for bit"),
                Attribute("weights", string(optional=True, filled=True), "a file of weights to start from"),
                Attribute(
                    "best",
                    call("goal", optional=True),
                    "which evaluation is the best: its checkpoint is kept, tested and exported",
                ),
                Attribute(
                    "patience",
                    integer(1, optional=True),
                    "how many evaluations in a row may be no better before training ends",
                ),
                Attribute(
                    "task_timeout",
                    duration(),
                    "how long a task of a cluster may be missing before it ends the run",
                ),
            ),
            "how long to train, and what to keep of it",
        ),
        Block("expect", ir.Expect, (), "conditions that the compiled placement must meet"),
    )
}
"""Every block by name, inner ones included."""

ROOT = ("let", "model", "layer", "data", "devices", "clones", "place", "update", "train", "expect")
"""The blocks that stand at the top of a spec."""

ROOT_ATTRIBUTES = (
    Attribute("tfdeploy", integer(low=1), "the version of the language, as the first item"),
    Attribute("include", listing(string()), "files whose blocks belong to this spec"),
)
