"""What to write instead of words and signs of other languages and libraries, which messages advise."""

from __future__ import annotations

from dsl.values import FEATURE

# --- of programming languages

OPERATIONS = {
    ">=": "greater_equal(a, b)",
    ">": "greater(a, b)",
    "<=": "less_equal(a, b)",
    "<": "less(a, b)",
    "==": "equal(a, b)",
    "!": "not_equal(a, b)` or `ops.logical_not(a)",
    "and": "logical_and(a, b)",
    "or": "logical_or(a, b)",
    "not": "logical_not(a)",
    "xor": "logical_xor(a, b)",
    "&": "logical_and(a, b)",
    "|": "logical_or(a, b)",
    "~": "logical_not(a)",
    "^": "power(a, b)",
    "%": "mod(a, b)",
    "@": "matmul(a, b)",
}
"""The functions that stand for operators of Python which the language does not have."""


def _by_word(advice: dict[str, str]) -> dict[str, str]:
    """Return what is said of several words in a row for each of them."""
    return {word: said for words, said in advice.items() for word in words.split()}


FOREIGN_WORDS = _by_word(
    {
        "for while": "`repeat(3, Dense(64))` makes a step several times, and a `layer` block gives several "
        "steps a name",
        "if else": "a spec describes one model; `--set PATH=VALUE` changes its values from the command line",
        "def class fn function": 'a `layer "name" { ... }` block gives several steps a name, and '
        "`parameter(...)` is its argument",
        "lambda": 'use a `layer` block, or `python("module:function")`, whose function returns a Keras layer',
        "import from": 'write `include = ["other.tfdeploy"]` at the top of the file; Keras needs no import',
        "return": "a `layer` block gives what its `output = ...` says",
        "print": "`tfdeploy plan` shows what a spec makes",
        "let const var": "constants stand in a block: `let { size = 64 }`",
    }
)
"""What to write instead of words that other languages have."""
FOREIGN_ATTRIBUTES = _by_word(
    {
        "lr learning_rate": "a learning rate is an argument of the optimizer: "
        "`update { optimizer = Adam(learning_rate = 1e-3) }`",
        "batch_size batchsize": "batches are cut for clones: `clones { batch = 64 }`, or `global_batch` for "
        "all clones together",
        "max_steps num_steps max_epochs num_epochs n_epochs": "training is as long as `steps` or `epochs` in "
        "`train` say",
        "trainable": "give `trainable = false` to the steps of the model that are to stay as they are, or "
        'name them in `update { freeze = ["backbone/*"] }`',
        "dataset": "data stands in a block of its own: `data { train = csv(...) }`",
    }
)
"""Attributes of other languages, each with what to write instead."""

# --- of TensorFlow's data

_OWN_SOURCE = 'do it in a source of yours, `python("module:function")`'
TRANSFORMS = {
    "apply": f"{_OWN_SOURCE}, whose function returns a dataset of tf.data",
    "batch": "the batch is given by `batch` or `global_batch` in `clones`",
    "concatenate": 'name all files in the source, as in `csv("part-*.csv", ...)`',
    "enumerate": _OWN_SOURCE,
    "filter": f"leave the examples out of the file, or {_OWN_SOURCE}",
    "flat_map": _OWN_SOURCE,
    "from_tensor_slices": "arrays come from a file: `npz(...)`",
    "group_by_window": "`bucket` puts examples of similar lengths together",
    "bucket_by_sequence_length": "write `bucket(name, boundaries = [16, 32])`",
    "interleave": 'name all files in the source, as in `csv("part-*.csv", ...)`, and `shuffle` behind it',
    "map": f"transforms change tensors one by one, layers of the model do the rest; else {_OWN_SOURCE}",
    "padded_batch": "`pad(name)` fills up each batch; `batch` in `clones` says how large it is",
    "prefetch": "leave it out: batches are always made ahead",
    "rebatch": "the batch is given by `batch` or `global_batch` in `clones`",
    "repeat": "leave it out: `epochs` or `steps` in `train` say how often the examples are read",
    "shard": "leave it out: each worker reads a part of its own",
    "snapshot": "write `cache()`",
    "unbatch": "a source gives single examples; `batch` in `clones` puts them together",
    "zip": "a source gives all tensors of an example: put them into one file, such as an `.npz` archive",
}
"""What to do without the methods of tf.data that are no transforms."""

# --- of Keras

_RANDOM = (
    "layers draw random numbers: `x -> GaussianNoise(0.1)`, `Dropout(0.5)`, or a layer of yours by "
    '`python("module:function")`'
)
_NO_FUNCTIONS = (
    "a spec holds no Python: write it with layers such as `Rescaling(1 / 255)` or `Multiply()`, or take it "
    'from a module, `python("module:function")`, whose function returns a Keras layer'
)
LEFT_OUT = (
    "a spec leaves out the functions of Keras that do not make a tensor with a row for each example of a "
    'batch: call it in a Keras layer of your own, `python("module:MyLayer")`'
)
"""What to do about a function of `keras.ops` that the language does not have."""
LAYERS = {
    "Lambda": _NO_FUNCTIONS,
    "Input": "an input is a binding: `image = input(float32, [28, 28, 1])`",
    "InputLayer": "an input is a binding: `image = input(float32, [28, 28, 1])`",
    "Sequential": "layers follow each other by `->`: `logits = image -> Flatten() -> Dense(10)`",
    "Model": "layers follow each other by `->`: `logits = image -> Flatten() -> Dense(10)`",
    "Linear": "write `Dense(...)`",
    "Conv2d": "write `Conv2D(...)`",
    "Equalization": "Keras can make no model of it: write `AutoContrast()`",
    "ReduceMean": "write `GlobalAveragePooling1D()`, or `2D`, or `3D`",
    "Resize": "write `Resizing(height, width)`",
}
"""What to write instead of layers that the language does not have."""
ELSEWHERE = {
    "clipnorm": "clip = norm(x)",
    "clipvalue": "clip = value(x)",
    "global_clipnorm": "clip = global_norm(x)",
    "use_ema": "ema = 0.99",
    "ema_momentum": "ema = 0.99",
    "ema_overwrite_frequency": "ema = 0.99",
    "loss_scale_factor": "precision = mixed_float16",
    "gradient_accumulation_steps": "accumulate = 2",
}
"""Arguments of Keras's optimizers that a spec says with an attribute of `update`, whatever the optimizer."""
FROZEN = (
    "give `trainable = false` to a step of the model, or name what is frozen in the block `update`: "
    '`freeze = ["backbone/*"]`'
)
FORMS = {
    "layer": "a layer is a class of Keras, `applications.NAME`, or a `layer` block of this spec",
    "loss": "a loss is a class of Keras such as `MeanSquaredError`",
    "metric": "a metric is a class of Keras such as `MeanAbsoluteError`",
    "feature": f"the tensors of the examples are written as in `x = {FEATURE}`",
}
"""What there is of each kind of function."""


def random_function(name: str) -> str | None:
    """Return what to do without a function of random numbers such as `ops.random.normal`; None for others."""
    return _RANDOM if "random" in name.split(".")[:-1] else None
