"""The functions of a `data` block: sources and the tensors in them, transforms, and lengths of batches."""

from __future__ import annotations

from dsl import ir
from dsl.schema.types import (
    ANY,
    PATH,
    Function,
    boolean,
    call,
    dtype,
    either,
    free_shape,
    integer,
    keyword,
    listing,
    needs,
    number,
    path,
    shape,
    string,
    takes,
    tensor,
    word,
)
from dsl.values import FEATURE

_PATH = needs("path", path(), "a file, or a glob of files, relative to the spec")
_IMAGE_AND_LABEL = ("image", "label")

RESIZES = ("bilinear", "area", "smooth", "crop")
"""How an image can be resized; the first is the default."""

SOURCES = (
    Function(
        "csv",
        (
            _PATH,
            keyword(
                "header",
                either(boolean(), listing(string())),
                True,
                "whether the first row names the columns; with `false` they are `column_1` and so on, or as "
                "a list names them",
            ),
        ),
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
            keyword("compression", word("none", "gzip", "zlib"), "none", "how the files are compressed"),
        ),
        call("feature"),
        "records of tf.train.Example; a keyword names a tensor and its value is `feature(dtype, shape)`",
        tensor=f"x = {FEATURE}",
    ),
    *(
        Function(
            name,
            (_PATH,),
            either(string(), listing(string()), call("feature")),
            f"columns of {files}, which `pyarrow` reads; a keyword names a tensor, its value columns as in "
            "`csv`, or a `feature`",
            tensor='x = "column"',
        )
        for name, files in (
            ("parquet", "Parquet files"),
            ("arrow", "Arrow or Feather files, and of data sets that Hugging Face has saved"),
        )
    ),
    Function(
        "images",
        (
            needs("path", path(), "a folder with a folder of JPEG and PNG files for each class"),
            needs("size", listing(integer(low=1)), "height and width to which every image is resized"),
            takes("channels", integer(1, 4), 3, "1 for grey, 3 for colour, 4 with transparency"),
            keyword(
                "classes",
                either(listing(string()), optional=True),
                None,
                "the names of the folders, in the order of their labels",
            ),
            keyword("resize", word(*RESIZES), RESIZES[0], "how an image of another size is resized"),
            keyword(
                "masks",
                path(optional=True),
                None,
                "a folder with a PNG file for each image, under the same name; then no folders are classes",
            ),
        ),
        doc="tensors `image` (uint8) and `label` (int32, the number of the folder in alphabetical order); "
        "with `masks`, `image` and `mask` (uint8, a number for each pixel)",
        tensors=_IMAGE_AND_LABEL,
    ),
    Function(
        "cifar10",
        (_PATH,),
        doc="files of the binary version; tensors `image` (uint8, 32 x 32 x 3) and `label`",
        tensors=_IMAGE_AND_LABEL,
    ),
    Function(
        "mnist",
        (
            needs("images", path(), "the idx file of the images"),
            needs("labels", path(), "the idx file of the labels"),
        ),
        doc="tensors `image` (uint8, 28 x 28 x 1) and `label`",
        tensors=_IMAGE_AND_LABEL,
    ),
    Function(
        "synthetic",
        (
            needs("count", integer(low=1), "how many examples an epoch has"),
            takes("seed", integer(0), 0, "the seed of the random numbers"),
        ),
        call("feature"),
        "random numbers; a keyword names a tensor and its value is `feature(dtype, shape, classes)`",
        tensor=f"x = {FEATURE}",
    ),
    Function(
        "python",
        (needs("function", string(), "`module:function`, which returns a tf.data dataset or a generator"),),
        ANY,
        "examples that a Python function makes from the keyword arguments",
    ),
)

FILES = {
    each.name: tuple(argument.name for argument in each.arguments if argument.type.of == PATH)
    for each in SOURCES
}
"""The arguments of each source that are files or folders. Those given by position are its first arguments."""

FEATURES = (
    Function(
        "feature",
        (
            needs("dtype", dtype(), "the type of the elements"),
            takes(
                "shape",
                free_shape(),
                (),
                "the shape of one example; the first axis may be `none`, which `pad` fills",
            ),
            takes(
                "classes",
                integer(low=1, optional=True),
                None,
                "in `synthetic`: draw integers below this number",
            ),
            keyword(
                "key",
                string(optional=True),
                None,
                "its name in the file; default: the name of the tensor",
            ),
            keyword("encoding", word("list", "raw", "image"), "list", "how it is stored in the file"),
            keyword(
                "resize",
                word(*RESIZES, optional=True),
                None,
                f"how images in the file are resized; default: `{RESIZES[0]}`",
            ),
        ),
        doc="a tensor of the examples",
    ),
)

_IMAGE = needs("name", tensor(), "which tensor: an image of shape `[height, width, channels]`")
_IMAGES = needs(
    "name", either(tensor(), listing(tensor())), "which image, or a list of images that are changed alike"
)
_RANDOM = either(number(0), listing(number()), optional=True)

RANDOM_TRANSFORMS = ("random_crop", "random_flip", "random_color", "cutout", "mixup")
"""The transforms that change each example at random, and so are for training only."""

TRANSFORMS = (
    Function(
        "shuffle",
        (
            needs("buffer", integer(low=1), "from how many examples the next one is drawn"),
            takes("seed", integer(0, optional=True), None, "a seed of its own; default: from `train.seed`"),
        ),
        doc="shuffles the examples anew in every epoch",
    ),
    Function("cache", doc="keeps the examples in memory after they have been read"),
    Function("take", (needs("n", integer(low=1), "how many"),), doc="uses only the first examples"),
    Function("skip", (needs("n", integer(low=1), "how many"),), doc="leaves out the first examples"),
    Function(
        "window",
        (
            needs("size", integer(low=1), "how many steps of the series an example has"),
            takes("shift", integer(low=1), 1, "how many rows after a window the next one begins"),
            takes("stride", integer(low=1), 1, "how many rows there are from one step to the next"),
            takes(
                "horizon",
                integer(low=0, optional=True),
                None,
                "how many steps after the window a label has; 0: that of its last step; default: 1",
            ),
            keyword(
                "label",
                either(tensor(), listing(tensor()), optional=True),
                None,
                "the tensor, or the tensors, of which the steps of the horizon are taken",
            ),
            keyword("gap", integer(low=0), 0, "how many steps there are between a window and its horizon"),
        ),
        doc="makes each run of rows an example; each file of the source is a series of its own",
    ),
    Function(
        "scale",
        (
            needs("name", tensor(), "which tensor"),
            needs("factor", number(), "what it is multiplied by"),
            takes("offset", number(), 0, "what is added after that"),
        ),
        doc="replaces the tensor by `factor * tensor + offset`",
    ),
    Function(
        "reshape",
        (
            needs("name", tensor(), "which tensor"),
            needs("shape", shape(), "its shape, without the batch axis"),
        ),
        doc="changes the shape of a tensor",
    ),
    Function(
        "cast",
        (needs("name", tensor(), "which tensor"), needs("dtype", dtype(), "the type of its elements")),
        doc="changes the element type of a tensor",
    ),
    Function(
        "one_hot",
        (
            needs("name", tensor(), "which tensor"),
            needs("classes", integer(low=1), "how many classes there are"),
        ),
        doc="turns class numbers into one-hot vectors",
    ),
    Function(
        "pad",
        (
            needs("name", either(tensor(), listing(tensor())), "which tensor, or a list of tensors"),
            keyword(
                "to",
                either(integer(low=1), call("length")),
                None,
                "the size to which axes that are `none` are filled: a number, or `multiple_of(n)`; "
                "default: that of the longest example of the batch",
            ),
            keyword("value", number(), 0, "what they are filled with; texts are filled with empty ones"),
            keyword("truncate", boolean(), False, "whether longer examples than `to` are cut off"),
        ),
        doc="gives the examples of a batch the same size, for a tensor with an axis of size `none`",
    ),
    Function(
        "bucket",
        (
            needs("name", tensor(), "the tensor whose length counts: that of its first axis"),
            needs("boundaries", listing(integer(low=1)), "the largest length in each group but the last"),
        ),
        doc="puts examples of about the same length into the same batch; comes before `pad`",
    ),
    Function(
        "center_crop",
        (_IMAGES, needs("size", listing(integer(low=1)), "height and width of the part")),
        doc="keeps the middle of an image",
    ),
    Function(
        "random_crop",
        (
            _IMAGES,
            needs("size", listing(integer(low=1)), "height and width of the part"),
            takes("pad", integer(0), 0, "how many rows and columns are put around the image first"),
            keyword("fill", number(), 0, "the value of the pixels around the image"),
        ),
        doc="keeps a random part of an image; for training only",
    ),
    Function(
        "random_flip",
        (
            _IMAGES,
            takes("direction", word("horizontal", "vertical", "both"), "horizontal", "how it is mirrored"),
        ),
        doc="mirrors half of the images; for training only",
    ),
    Function(
        "random_color",
        (
            _IMAGE,
            keyword(
                "brightness",
                _RANDOM,
                None,
                "what is added, as a part of the range; `0.2` means `[-0.2, 0.2]`",
            ),
            keyword(
                "contrast",
                _RANDOM,
                None,
                "by what the distance of pixels from their mean is multiplied; `0.2` means `[0.8, 1.2]`",
            ),
            keyword(
                "saturation",
                _RANDOM,
                None,
                "by what the saturation is multiplied; `0.2` means `[0.8, 1.2]`",
            ),
            keyword(
                "hue",
                _RANDOM,
                None,
                "by what part of the circle of colours the hue is turned; `0.1` means `[-0.1, 0.1]`",
            ),
            keyword(
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
            needs(
                "size",
                either(integer(low=1), listing(integer(low=1))),
                "the side of a square, or height and width",
            ),
            keyword("fill", number(), 0, "the value of the pixels that are covered"),
        ),
        doc="covers a rectangle around a random pixel of an image; for training only",
    ),
    Function(
        "mixup",
        (
            needs("image", tensor(), "the tensor of the images"),
            needs("label", tensor(), "the tensor of the labels: floats, such as one-hot vectors"),
            takes("alpha", number(0, open=True), 0.2, "shares are drawn from Beta(alpha, alpha)"),
        ),
        doc="mixes each example with the next one; for training only",
    ),
    Function("rename", rest=tensor(), doc="`rename(new = old)` renames the tensor `old` to `new`"),
)

LENGTHS = (
    Function(
        "multiple_of",
        (needs("n", integer(low=1), "the number"),),
        doc="the smallest multiple of a number that the longest example of the batch fits into",
    ),
)


# --- names of the tensors of examples, as far as they follow from the spec alone --------------------------


def tensors_of(source: ir.Call) -> frozenset[str] | None:
    """Return the names of the tensors that a source yields, or None if only reading the source shows them."""
    function = next(each for each in SOURCES if each.name == source.name)
    if source.name == "images" and source.kwargs.get("masks") is not None:
        return frozenset({"image", "mask"})
    if function.tensors:
        return frozenset(function.tensors)
    if source.name == "python" or (source.name == "npz" and not source.kwargs):
        return None
    return frozenset(source.kwargs) - {each.name for each in function.arguments}


def renamed(tensors: frozenset[str], transform: ir.Call) -> frozenset[str]:
    """Return the names of the tensors after a transform."""
    if transform.name != "rename":
        return tensors
    return (tensors - {str(old) for old in transform.kwargs.values()}) | frozenset(transform.kwargs)


def tensors_of_split(split: ir.Split) -> frozenset[str] | None:
    """Return the names of the tensors after all transforms, or None if only reading the source shows them."""
    tensors = tensors_of(split.source)
    for transform in split.transforms:
        tensors = None if tensors is None else renamed(tensors, transform)
    return tensors
