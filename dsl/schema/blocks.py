"""The blocks of the language and their attributes. The defaults are those of the records in `dsl/ir/`."""

from __future__ import annotations

from typing import Any, Literal

from attrs import NOTHING, fields_dict, frozen

from dsl import ir
from dsl.schema.hardware import TABLE as HARDWARE
from dsl.schema.notation import entries, type_of
from dsl.schema.types import Type, integer, listing, path


@frozen
class Attribute:
    """One attribute of a block, written `name = value`."""

    name: str
    type: Type
    doc: str
    required: bool = False


@frozen
class Block:
    """A kind of block."""

    name: str
    record: type[Any] | None
    attributes: tuple[Attribute, ...]  # its attributes, in the order of the reference
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


def _block(head: tuple[Any, ...], rows: list[tuple[Any, ...]]) -> Block:
    name, label, inner, _, doc = head
    attributes = tuple(
        Attribute(name, type_of(type_, {"HARDWARE": tuple(HARDWARE)}), doc, required=must == "!")
        for _, name, must, _, type_, doc in rows
    )
    record = getattr(ir, "LayerBlock" if name == "layer" else name.title(), None)
    inside = tuple(inner.split(", ")) if inner else ()
    return Block(name, record, attributes, doc, "required" if label else "none", inside)


ALTERNATIVES = {"clones": ("batch", "global_batch"), "train": ("steps", "epochs"), "job": ("tasks", "hosts")}
"""Attributes of which a block may have only one, by the name of the block."""

BLOCKS: dict[str, Block] = {
    head[0]: _block(head, rows)
    for head, rows in entries("""
let: named constants
model "name" { metrics, output }: what one clone computes
  loss: any -- `[target, prediction] -> Loss()`, with weights as a third tensor, or a sum; tensors too
  regularize: keras:regularizer -- a penalty on every kernel, added once per step
  output: any -- what the trained model returns, or `{ name = tensor }`; default: the predictions
output: written `output = { name = tensor }`, what the trained model returns by names
metrics: `name = [target, prediction] -> Metric()`, or with weights too
layer "name": a reusable part of a model
  output!: any -- the tensor that the layer returns
data: where the examples come from
  train: any -- the examples to train on
  validation: any -- the examples for evaluations during training
  test: any -- the examples for the last evaluation
  per_clone: word:PerClone -- `split`: slices of one stream; `shard`: a stream for each clone
devices { job }: the devices to compute on
  gpu: int[0,4096] -- how many GPUs this machine has
  cpu: int[1,4096] -- how many CPU devices this machine has
  gpu_memory: size? -- memory of each GPU; `plan` warns if its forecast is higher
  cpu_memory: size? -- memory of each machine; `plan` warns if its forecast is higher
  link: size? -- bytes per second between two GPUs, or between two machines, for forecasts of time
  kind: word:HARDWARE? -- the hardware of the devices, for forecasts of time if nothing was measured
  soft_placement: bool -- let TensorFlow use another device if a device is missing
  allow_growth: bool -- let TensorFlow allocate GPU memory when it is needed
  visible: [int[0,)] -- the indices of the GPUs to use
  log_placement: bool -- let TensorFlow log the device of every op
  intra_op_threads: int[1,4096]? -- threads for one op on a CPU; default: the number of cores divided among
      the towers, or among the tasks of a machine
  inter_op_threads: int[1,4096]? -- ops that a process runs at the same time; default: one for each core
job "name": a job of a cluster
  tasks: range[1,100000] -- how many tasks the job has; `2..8` if workers come and go while they train
  gpu: int[0,4096] -- how many GPUs each task has
  cpu: int[1,4096] -- how many CPU devices each task has
  hosts: [str] -- `host:port` of each task, instead of `tasks`
clones: how many clones there are, and how many examples each gets per step
  count: int[1,100000] -- how many clones; default: one for each device of the rule for clones
  batch: int[1,) | [int[1,)] -- examples per step for each clone, or a list with a number for each clone
  global_batch: int[1,) -- examples per step for all clones together, instead of `batch`
place: `selector -> target`: what is placed where; the last rule that matches applies
update { optimizer }: how the gradients of the clones become new weights
  mode: word:Mode -- when gradients are applied
  optimizer: keras:optimizer -- the Keras optimizer; required to train
  freeze: [text] -- globs of weights that training does not change
  reduce: word:Reduce -- whether the gradients of the clones are averaged or added
  aggregate: call:aggregation -- the algorithm that sums the gradients of the clones
  pack: size? -- size of the buckets into which small gradients are packed
  compress: call:compression? -- how gradients that are sent from machine to machine are made smaller
  clip: call:clip? -- a bound on the gradients, after aggregation
  accumulate: int[1,MANY] -- micro-batches per step
  schedule: word:PipelineSchedule? -- how the devices of a clone's group work on several micro-batches at
      the same time
  recompute: call:recomputation? -- what of the forward pass is computed again in the backward pass, to
      save memory
  ema: float(0,1)? | call:average ? -- decay of the moving average of the weights, or `EMA(...)`
  batch_norm: word:BatchNorm -- whose statistics become the moving averages of batch normalization
  precision: word:Precision -- the data type of the computation
  replication: word:Replication -- one graph for all workers, or one for each
  backup: int[0,100000] -- how many of the workers a step does not wait for
  staleness: int[0,MANY]? -- how many updates the fastest clone may be ahead of the slowest
  average_every: int[1,MANY] -- steps between two averagings of the clones' weights
  average_slots: bool -- average the optimizer's slots together with the weights
optimizer: `"glob" -> optimizer`: the optimizer of the weights whose names match; the first rule that matches
    wins, and every trainable weight must have one
train { weights }: how long to train, and what to keep of it
  steps: int[1,) -- how many steps to train
  epochs: int[1,) -- how often to go through the data
  directory: path -- the run directory
  checkpoint_every: period -- a number of steps or a duration
  evaluate_every: period -- a number of steps or a duration
  keep: int[1,MANY] -- how many checkpoints are kept
  log_every: int[1,MANY] -- steps between two records of the history
  summaries: word:Summaries -- what is written for TensorBoard
  track: call:tracker? -- where scores and files are sent as well
  prometheus: str? -- the address, `HOST:PORT` or a port of this machine, where Prometheus reads how tasks do
  seed: int[0,MANY]? -- the seed of all random numbers
  deterministic: bool -- make two runs equal, bit for bit
  weights: path? -- a file of weights to start from
  best: call:goal? -- which evaluation is the best; its checkpoint is kept, tested and exported
  patience: int[1,MANY]? -- after how many evaluations in a row without improvement training ends
  task_timeout: duration -- how long a task of a cluster may be missing before the run ends
weights: `"glob" -> "file"`: files of weights that parts of the model start from
expect: conditions that the compiled placement must meet
""")
}
"""Every block by name, inner ones included."""

ROOT = ("let", "model", "layer", "data", "devices", "clones", "place", "update", "train", "expect")
"""The names of the blocks at the top level of a spec."""

ROOT_ATTRIBUTES = (
    Attribute("tfdeploy", integer(low=1), "the version of the language, as the first item"),
    Attribute("include", listing(path()), "files whose blocks belong to this spec"),
)
