"""The functions of the language, such as sources, transforms and aggregations, with their arguments."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from dsl.schema.types import (
    ANY,
    Type,
    boolean,
    call,
    dtype,
    either,
    free_shape,
    integer,
    listing,
    number,
    shape,
    string,
    tensor,
    word,
)
from dsl.values import FEATURE


@frozen
class Argument:
    """An argument of a function.

    Attributes:
        name: The name.
        type: The type of its value.
        doc: The description for the reference.
        default: The value that is used if the argument is not given and not required.
        required: Whether it must be given.
        positional: Whether it may be given by position.
    """

    name: str
    type: Type
    doc: str = ""
    default: Any = None
    required: bool = False
    positional: bool = True


@frozen(cache_hash=True)
class Function:
    """A function of the language.

    Attributes:
        name: The name.
        arguments: The arguments, in the order of positions.
        rest: The type of further keyword arguments, or None if there may be none.
        doc: The description for the reference.
        repeating: Whether there may be any number of further positional arguments.
        tensor: An example of a further keyword argument if each names a tensor of the examples; else empty.
    """

    name: str
    arguments: tuple[Argument, ...] = ()
    rest: Type | None = None
    doc: str = ""
    repeating: bool = False
    tensor: str = ""

    def argument(self, name: str) -> Argument | None:
        """Return the argument with this name, or None."""
        return next((each for each in self.arguments if each.name == name), None)

    @property
    def positional(self) -> tuple[Argument, ...]:
        """The arguments that may be given by position, in their order."""
        return tuple(each for each in self.arguments if each.positional)


def _needs(name: str, type: Type, doc: str) -> Argument:  # noqa: A002
    return Argument(name, type, doc, required=True)


def _takes(name: str, type: Type, default: Any, doc: str) -> Argument:  # noqa: A002
    return Argument(name, type, doc, default)


def _keyword(name: str, type: Type, default: Any, doc: str) -> Argument:  # noqa: A002
    return Argument(name, type, doc, default, positional=False)


_PATH = _needs("path", string(), "a file, or a glob of files, relative to the spec")

RESIZES = ("bilinear", "area", "smooth", "crop")
"""How an image can be resized; the first is the default."""

SOURCES = (
    Function(
        "csv",
        (_PATH,),
        either(string(), listing(string())),
        "rows of a CSV file; a keyword names a tensor, its value a column, a glob or a list of columns",
        tensor='x = "column"',
    ),
    Function(
        "npz",
        (_PATH,),
        string(),
        "arrays of a NumPy archive; a keyword names a tensor and its value the array; default: all",
        tensor='x = "array"',
    ),
    Function(
        "tfrecord",
        (
            _PATH,
            _keyword("compression", word("none", "gzip", "zlib"), "none", "how the files are compressed"),
        ),
        call("feature"),
        "records of tf.train.Example; a keyword names a tensor and its value is `feature(dtype, shape)`",
        tensor=f"x = {FEATURE}",
    ),
    Function(
        "images",
        (
            _needs("path", string(), "a folder with a folder of JPEG and PNG files for each class"),
            _needs("size", listing(integer(low=1)), "height and width to which every image is resized"),
            _takes("channels", integer(1, 4), 3, "1 for grey, 3 for colour, 4 with transparency"),
            _keyword(
                "classes",
                either(listing(string()), optional=True),
                None,
                "the names of the folders, in the order of their labels",
            ),
            _keyword("resize", word(*RESIZES), RESIZES[0], "how an image of another size is resized"),
        ),
        doc="tensors `image` (uint8) and `label` (int32, the number of the folder in alphabetical order)",
    ),
    Function(
        "cifar10",
        (_PATH,),
        doc="files of the binary version; tensors `image` (uint8, 32 x 32 x 3) and `label`",
    ),
    Function(
        "mnist",
        (
            _needs("images", string(), "the idx file of the images"),
            _needs("labels", string(), "the idx file of the labels"),
        ),
        doc="tensors `image` (uint8, 28 x 28 x 1) and `label`",
    ),
    Function(
        "synthetic",
        (
            _needs("count", integer(low=1), "how many examples an epoch has"),
            _takes("seed", integer(0), 0, "the seed of the random numbers"),
        ),
        call("feature"),
        "random numbers; a keyword names a tensor and its value is `feature(dtype, shape, classes)`",
        tensor=f"x = {FEATURE}",
    ),
    Function(
        "python",
        (_needs("function", string(), "`module:function`, which returns a tf.data dataset or a generator"),),
        ANY,
        "examples that a Python function makes from the keyword arguments",
    ),
)

FEATURES = (
    Function(
        "feature",
        (
            _needs("dtype", dtype(), "the type of the elements"),
            _takes(
                "shape",
                free_shape(),
                (),
                "the shape of one example; the first axis may be `none`, which `pad` fills",
            ),
            _takes(
                "classes",
                integer(low=1, optional=True),
                None,
                "in `synthetic`: draw integers below this number",
            ),
            _keyword(
                "key",
                string(optional=True),
                None,
                "its name in a `tfrecord`; default: the name of the tensor",
            ),
            _keyword("encoding", word("list", "raw", "image"), "list", "how it is stored in a `tfrecord`"),
            _keyword(
                "resize",
                word(*RESIZES, optional=True),
                None,
                f"how images in a `tfrecord` are resized; default: `{RESIZES[0]}`",
            ),
        ),
        doc="a tensor of the examples",
    ),
)

_IMAGE = _needs("name", tensor(), "which tensor: an image of shape `[height, width, channels]`")
_RANDOM = either(number(0), listing(number()), optional=True)

RANDOM_TRANSFORMS = ("random_crop", "random_flip", "random_color", "cutout", "mixup")
"""The transforms that change each example at random, and so are for training only."""

TRANSFORMS = (
    Function(
        "shuffle",
        (
            _needs("buffer", integer(low=1), "from how many examples the next one is drawn"),
            _takes("seed", integer(0, optional=True), None, "a seed of its own; default: from `train.seed`"),
        ),
        doc="shuffles the examples anew in every epoch",
    ),
    Function("cache", doc="keeps the examples in memory after they have been read"),
    Function("take", (_needs("n", integer(low=1), "how many"),), doc="uses only the first examples"),
    Function("skip", (_needs("n", integer(low=1), "how many"),), doc="leaves out the first examples"),
    Function(
        "scale",
        (
            _needs("name", tensor(), "which tensor"),
            _needs("factor", number(), "what it is multiplied by"),
            _takes("offset", number(), 0, "what is added after that"),
        ),
        doc="replaces the tensor by `factor * tensor + offset`",
    ),
    Function(
        "reshape",
        (
            _needs("name", tensor(), "which tensor"),
            _needs("shape", shape(), "its shape, without the batch axis"),
        ),
        doc="changes the shape of a tensor",
    ),
    Function(
        "cast",
        (_needs("name", tensor(), "which tensor"), _needs("dtype", dtype(), "the type of its elements")),
        doc="changes the element type of a tensor",
    ),
    Function(
        "one_hot",
        (
            _needs("name", tensor(), "which tensor"),
            _needs("classes", integer(low=1), "how many classes there are"),
        ),
        doc="turns class numbers into one-hot vectors",
    ),
    Function(
        "pad",
        (
            _needs("name", either(tensor(), listing(tensor())), "which tensor, or a list of tensors"),
            _keyword(
                "to",
                either(integer(low=1), call("length")),
                None,
                "the size to which axes that are `none` are filled: a number, or `multiple_of(n)`; "
                "default: that of the longest example of the batch",
            ),
            _keyword("value", number(), 0, "what they are filled with; texts are filled with empty ones"),
            _keyword("truncate", boolean(), False, "whether longer examples than `to` are cut off"),
        ),
        doc="gives the examples of a batch the same size, where that of the tensor is `none`",
    ),
    Function(
        "bucket",
        (
            _needs("name", tensor(), "the tensor whose length counts: that of its first axis"),
            _needs("boundaries", listing(integer(low=1)), "the largest length in each group but the last"),
        ),
        doc="puts examples of about the same length into the same batch; comes before `pad`",
    ),
    Function(
        "center_crop",
        (_IMAGE, _needs("size", listing(integer(low=1)), "height and width of the part")),
        doc="keeps the middle of an image",
    ),
    Function(
        "random_crop",
        (
            _IMAGE,
            _needs("size", listing(integer(low=1)), "height and width of the part"),
            _takes("pad", integer(0), 0, "how many rows and columns are put around the image first"),
            _keyword("fill", number(), 0, "the value of the pixels around the image"),
        ),
        doc="keeps a random part of an image; for training only",
    ),
    Function(
        "random_flip",
        (
            _IMAGE,
            _takes("direction", word("horizontal", "vertical", "both"), "horizontal", "how it is mirrored"),
        ),
        doc="mirrors half of the images; for training only",
    ),
    Function(
        "random_color",
        (
            _IMAGE,
            _keyword(
                "brightness",
                _RANDOM,
                None,
                "what is added, as a part of the range; `0.2` means `[-0.2, 0.2]`",
            ),
            _keyword(
                "contrast",
                _RANDOM,
                None,
                "by what the distance of pixels from their mean is multiplied; `0.2` means `[0.8, 1.2]`",
            ),
            _keyword(
                "saturation",
                _RANDOM,
                None,
                "by what the saturation is multiplied; `0.2` means `[0.8, 1.2]`",
            ),
            _keyword(
                "hue",
                _RANDOM,
                None,
                "by what part of the circle of colours the hue is turned; `0.1` means `[-0.1, 0.1]`",
            ),
            _keyword(
                "range",
                either(listing(number()), optional=True),
                None,
                "the lowest and highest number of a pixel; default: `[0, 255]` for `uint8`, else `[0, 1]`",
            ),
        ),
        doc="changes light and colours of an image at random; for training only",
    ),
    Function(
        "cutout",
        (
            _IMAGE,
            _needs(
                "size",
                either(integer(low=1), listing(integer(low=1))),
                "the side of a square, or height and width",
            ),
            _keyword("fill", number(), 0, "the value of the pixels that are covered"),
        ),
        doc="covers a rectangle around a random pixel of an image; for training only",
    ),
    Function(
        "mixup",
        (
            _needs("image", tensor(), "the tensor of the images"),
            _needs("label", tensor(), "the tensor of the labels: floats, such as one-hot vectors"),
            _takes("alpha", number(0, open=True), 0.2, "shares are drawn from Beta(alpha, alpha)"),
        ),
        doc="mixes each example with the next one; for training only",
    ),
    Function("rename", rest=tensor(), doc="`rename(new = old)` renames the tensor `old` to `new`"),
)

LENGTHS = (
    Function(
        "multiple_of",
        (_needs("n", integer(low=1), "the number"),),
        doc="the smallest multiple of a number that the longest example of the batch fits into",
    ),
)

AGGREGATIONS = (
    Function("add_n", doc="all gradients of a variable are summed on one device"),
    Function("tree", doc="pairs of clones are summed, level by level"),
    Function(
        "hierarchical",
        (
            _takes(
                "size", integer(low=1, optional=True), None, "devices in a group; default: those of a task"
            ),
        ),
        doc="gradients are summed in each group of devices, and then between the groups",
    ),
    Function("ring", doc="all-reduce in a ring: every device passes chunks to the next one"),
    Function(
        "shuffle",
        (
            _takes(
                "shards", integer(low=1, optional=True), None, "how many parts; default: one for each clone"
            ),
        ),
        doc="every gradient is split into parts that are summed on different devices",
    ),
    Function("collective", doc="TensorFlow's CollectiveReduce"),
)

_NORM = (_needs("x", number(0, open=True), "the bound"),)
CLIPS = (
    Function("global_norm", _NORM, doc="scales all gradients if their common norm is larger than the bound"),
    Function("norm", _NORM, doc="scales each gradient whose own norm is larger than the bound"),
    Function("value", _NORM, doc="limits each element to plus and minus the bound"),
)

AVERAGES = (
    Function(
        "EMA",
        (
            _needs("decay", number(0, 1, open=True), "the share of the old average that each update keeps"),
            _keyword(
                "warm_up",
                boolean(),
                False,
                "use `min(decay, (1 + n) / (10 + n))` after `n` updates, to forget the first weights",
            ),
        ),
        doc="the exponential moving average of each weight",
    ),
)

_SCORE = (_needs("score", string(), "the name of a metric of the model, or `loss`"),)
GOALS = (
    Function("highest", _SCORE, doc="the evaluation in which the score is highest is the best"),
    Function("lowest", _SCORE, doc="the evaluation in which the score is lowest is the best"),
)

OPTIMIZERS = (
    Function(
        "python",
        (
            _needs("function", string(), "`module:function`, which returns a keras.optimizers.Optimizer"),
            _keyword(
                "exclude_from_weight_decay",
                either(listing(string(filled=True)), optional=True),
                None,
                "globs of the weights that do not decay",
            ),
        ),
        ANY,
        "an optimizer that a Python function makes from the keyword arguments",
    ),
)
SCHEDULES = (
    Function(
        "python",
        (_needs("function", string(), "`module:function`, which returns a LearningRateSchedule of Keras"),),
        ANY,
        "a schedule that a Python function makes from the keyword arguments",
    ),
)


def _python(made: str, doc: str) -> tuple[Function, ...]:
    function_ = _needs("function", string(), f"`module:function`: a function that returns {made}")
    return (Function("python", (function_,), ANY, doc),)


OWN = {
    "layer": _python(
        "a Keras layer or model", "a layer that a Python function makes from the keyword arguments"
    ),
    "loss": _python(
        "a Keras loss, or a function of targets and predictions that returns a value for each example",
        "a loss in Python, which gets the keyword arguments",
    ),
    "metric": _python(
        "a Keras metric, or a function of targets and predictions that returns a value for each example",
        "a metric in Python, which gets the keyword arguments",
    ),
    "initializer": _python(
        "an initializer, or a function of `shape` and `dtype` that returns the first value of a weight",
        "an initializer in Python, which gets the keyword arguments",
    ),
    "regularizer": _python(
        "a regularizer, or a function of a weight that returns its penalty",
        "a regularizer in Python, which gets the keyword arguments",
    ),
    "constraint": _python(
        "a constraint, or a function of a weight that returns the weight as it has to be",
        "a constraint in Python, which gets the keyword arguments",
    ),
    "activation": _python(
        "an activation, or a function of a tensor that returns another one",
        "an activation in Python, which gets the keyword arguments",
    ),
}
"""What can be written instead of a Keras object, by the category of the object."""

FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "source": SOURCES,
    "feature": FEATURES,
    "transform": TRANSFORMS,
    "length": LENGTHS,
    "aggregation": AGGREGATIONS,
    "clip": CLIPS,
    "average": AVERAGES,
    "goal": GOALS,
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    **OWN,
}
"""Every table of functions, by what its functions are called in messages.

Those of Keras's categories, such as optimizers and losses, are what can be written beside Keras's own.
"""


def function(table: str, name: str) -> Function | None:
    """Return the function with this name in a table, or None.

    Args:
        table: The table, such as `source` or `transform`.
        name: The name of the function.
    """
    return next((each for each in FUNCTIONS.get(table, ()) if each.name == name), None)


def function_names(table: str) -> tuple[str, ...]:
    """Return the names of all functions in a table."""
    return tuple(each.name for each in FUNCTIONS[table])
