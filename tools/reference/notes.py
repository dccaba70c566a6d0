"""What the schema cannot say: words around a block and defaults that depend on others."""

from __future__ import annotations

BLOCKS = {
    "let": "Each `name = expression` defines a constant, and any of them may use the others. Everything else in"
    " the spec may use them by name. `--set let.name=value` replaces one for a run.",
    "model": "All other items are bindings: `x = input(...)`, `y = x -> Layer(...)`, `shared = layer(...)`. See"
    " [Write a model](../how-to/model.md). A model without `loss` can be checked, and no more.",
    "output": "Stands inside `model`, where it is written `output = { ... }`. Each item names a tensor:"
    " [Several outputs](../how-to/model.md#several-outputs).",
    "metrics": "Stands inside `model`. Each item names a [metric](keras.md#metrics) and what it compares.",
    "layer": "Its other items are parameters, `filters = parameter(int)` with an optional default as second"
    " argument; inputs, `x = input()`; and bindings. Used as a step of a flow, under its name:"
    " `x -> residual(64)`.",
    "data": "Each split is a [source](functions.md#sources), followed by [transforms](functions.md#transforms). See"
    " [Bring your data](../how-to/data.md).",
    "devices": "Without this block, the GPUs that TensorFlow finds here, or CPU 0 if it finds none.",
    "job": "Stands inside `devices`, once for each job of a cluster. Tasks of the job `ps` keep variables; all others"
    " may have clones. `hosts` and `tasks` exclude each other.",
    "clones": "`batch` and `global_batch` exclude each other.",
    "place": "See [Selectors](place-and-expect.md#selectors) and [Targets](place-and-expect.md#targets), and"
    " [Decide what goes where](../how-to/placement.md).",
    "update": "See [Choose an update mode](../how-to/update.md) and [Tune the numerics](../how-to/numerics.md). Some"
    " values exclude each other: [What can be combined](combinations.md).",
    "optimizer": "Stands inside `update`, in place of its attribute `optimizer`. Each item is a rule for a group of"
    " weights: [Groups of weights](../how-to/numerics.md#groups-of-weights).",
    "train": "`steps` and `epochs` exclude each other, and training needs one of them.",
    "weights": "Stands inside `train`, beside its attribute `weights`. Each item is a rule for a part of the model:"
    " [Fine-tuning](../how-to/model.md#fine-tuning-frozen-layers-and-files-of-weights).",
    "expect": "Each item is a [condition](place-and-expect.md#conditions). Commands that build the graph fail if"
    " one does not hold.",
}

DEFAULTS = {
    "model.loss": "none; needed to train",
    "model.regularize": "`none`",
    "model.output": "the prediction of the loss; those of several losses by their names",
    "layer.output": "none; required",
    "data.train": "none; needed to train",
    "data.validation": "no such split",
    "data.test": "no such split",
    "devices.gpu": "0 if `cpu` is given, else what is found",
    "devices.cpu": "1",
    "devices.visible": "all",
    "job.hosts": "none",
    "clones.count": "one per device, or group, that clones go to",
    "clones.batch": "32",
    "clones.global_batch": "`batch` times `count`",
    "update.freeze": "nothing is frozen",
    "update.optimizer": "none; needed to train",
    "update.replication": (
        "`in_graph`; on a cluster `between_graph` with `mode = async`, and with `mode = sync` if there are"
        " several workers, no job `ps`, and no rule for variables"
    ),
    "update.average_every": "none; needed for `local`",
    "train.steps": "none; this or `epochs`",
    "train.epochs": "none; this or `steps`",
    "train.directory": "`runs/NAME` for `NAME.tfdeploy`",
    "train.checkpoint_every": "every 5 seconds, or less often if that would take more than 2 % of the time",
    "train.evaluate_every": "at the end only",
    "train.task_timeout": "`10min`",
}
"""By `block.attribute`: the default in words, if it is not a value of the language."""
