"""The functions of a `data` block: sources and the tensors in them, transforms, and lengths of batches."""

from __future__ import annotations

from dsl import ir
from dsl.schema.notation import functions
from dsl.schema.types import PATH

RESIZES = ("bilinear", "area", "smooth", "crop")
"""How an image can be resized; the first is the default."""

SOURCES = functions(
    """
csv: rows of a CSV file; a keyword names a tensor, its value a column, a glob or a list of columns
  path: path -- a file, or a glob of files, relative to the spec
  *header = true: bool | [str] -- whether the first row names the columns; with `false` they are `column_1`
      and so on, or as a list names them
  **x = "column": str | [str]
npz: arrays of a NumPy archive; a keyword names a tensor and its value the array; default: all
  path: path -- a file, or a glob of files, relative to the spec
  **x = "array": str
tfrecord: records of tf.train.Example; a keyword names a tensor and its value is `feature(dtype, shape)`
  path: path -- a file, or a glob of files, relative to the spec
  *compression = "none": word:none/gzip/zlib -- how the files are compressed
  **x = feature(float32, [3]): call:feature
parquet: columns of Parquet files, which `pyarrow` reads; a keyword names a tensor, its value columns as in
    `csv`, or a `feature`
  path: path -- a file, or a glob of files, relative to the spec
  **x = "column": str | [str] | call:feature
arrow: columns of Arrow or Feather files, and of data sets that Hugging Face has saved, which `pyarrow` reads;
    a keyword names a tensor, its value columns as in `csv`, or a `feature`
  path: path -- a file, or a glob of files, relative to the spec
  **x = "column": str | [str] | call:feature
images -> image, label: tensors `image` (uint8) and `label` (int32, the number of the folder in alphabetical
    order); with `masks`, `image` and `mask` (uint8, a number for each pixel)
  path: path -- a folder with a folder of JPEG and PNG files for each class
  size: [int[1,)] -- height and width to which every image is resized
  channels = 3: int[1,4] -- 1 for grey, 3 for colour, 4 with transparency
  *classes = none: [str] ? -- the names of the folders, in the order of their labels
  *resize = "bilinear": word:RESIZES -- how an image of another size is resized
  *masks = none: path? -- a folder with a PNG file for each image, under the same name; then no
      folders are classes
cifar10 -> image, label: files of the binary version; tensors `image` (uint8, 32 x 32 x 3) and `label`
  path: path -- a file, or a glob of files, relative to the spec
mnist -> image, label: tensors `image` (uint8, 28 x 28 x 1) and `label`
  images: path -- the idx file of the images
  labels: path -- the idx file of the labels
synthetic: random numbers; a keyword names a tensor and its value is `feature(dtype, shape, classes)`
  count: int[1,) -- how many examples an epoch has
  seed = 0: int[0,) -- the seed of the random numbers
  **x = feature(float32, [3]): call:feature
python: examples that a Python function makes from the keyword arguments
  function: str -- `module:function`, which returns a tf.data dataset or a generator
  **: any?
""",
    RESIZES=RESIZES,
)
FILES = {
    each.name: tuple(argument.name for argument in each.arguments if argument.type.of == PATH)
    for each in SOURCES
}
"""The arguments of each source that are files or folders. Those given by position are its first arguments."""

FEATURES = functions(
    """
feature: a tensor of the examples
  dtype: dtype -- the type of the elements
  shape = (): [int[1,)?] -- the shape of one example; the first axis may be `none`, which `pad` fills
  classes = none: int[1,)? -- in `synthetic`: draw integers below this number
  *key = none: str? -- its name in the file; default: the name of the tensor
  *encoding = "list": word:list/raw/image -- how it is stored in the file
  *resize = none: word:RESIZES? -- how images in the file are resized; default: `bilinear`
""",
    RESIZES=RESIZES,
)
RANDOM_TRANSFORMS = ("random_crop", "random_flip", "random_color", "cutout", "mixup")
"""The transforms that change each example at random, and so are for training only."""

TRANSFORMS = functions("""
shuffle: shuffles the examples anew in every epoch
  buffer: int[1,) -- from how many examples the next one is drawn
  seed = none: int[0,)? -- a seed of its own; default: from `train.seed`
cache: keeps the examples in memory after they have been read
take: uses only the first examples
  n: int[1,) -- how many
skip: leaves out the first examples
  n: int[1,) -- how many
window: makes each run of rows an example; each file of the source is a series of its own
  size: int[1,) -- how many steps of the series an example has
  shift = 1: int[1,) -- how many rows after a window the next one begins
  stride = 1: int[1,) -- how many rows there are from one step to the next
  horizon = none: int[0,)? -- how many steps after the window a label has; 0: that of its last step;
      default: 1
  *label = none: tensor | [tensor] ? -- the tensor, or the tensors, of which the steps of the
      horizon are taken
  *gap = 0: int[0,) -- how many steps there are between a window and its horizon
scale: replaces the tensor by `factor * tensor + offset`
  name: tensor -- which tensor
  factor: float -- what it is multiplied by
  offset = 0: float -- what is added after that
reshape: changes the shape of a tensor
  name: tensor -- which tensor
  shape: [int[1,)] -- its shape, without the batch axis
cast: changes the element type of a tensor
  name: tensor -- which tensor
  dtype: dtype -- the type of its elements
one_hot: turns class numbers into one-hot vectors
  name: tensor -- which tensor
  classes: int[1,) -- how many classes there are
pad: gives the examples of a batch the same size, for a tensor with an axis of size `none`
  name: tensor | [tensor] -- which tensor, or a list of tensors
  *to = none: int[1,) | call:length -- the size to which axes that are `none` are filled: a number, or
      `multiple_of(n)`; default: that of the longest example of the batch
  *value = 0: float -- what they are filled with; texts are filled with empty ones
  *truncate = false: bool -- whether longer examples than `to` are cut off
bucket: puts examples of about the same length into the same batch; comes before `pad`
  name: tensor -- the tensor whose length counts: that of its first axis
  boundaries: [int[1,)] -- the largest length in each group but the last
center_crop: keeps the middle of an image
  name: tensor | [tensor] -- which image, or a list of images that are changed alike
  size: [int[1,)] -- height and width of the part
random_crop: keeps a random part of an image; for training only
  name: tensor | [tensor] -- which image, or a list of images that are changed alike
  size: [int[1,)] -- height and width of the part
  pad = 0: int[0,) -- how many rows and columns are put around the image first
  *fill = 0: float -- the value of the pixels around the image
random_flip: mirrors half of the images; for training only
  name: tensor | [tensor] -- which image, or a list of images that are changed alike
  direction = "horizontal": word:horizontal/vertical/both -- how it is mirrored
random_color: changes light and colours of an image at random; for training only
  name: tensor -- which tensor: an image of shape `[height, width, channels]`
  *brightness = none: float[0,) | [float] ? -- what is added, as a part of the range; `0.2` means
      `[-0.2, 0.2]`
  *contrast = none: float[0,) | [float] ? -- by what the distance of pixels from their mean is multiplied;
      `0.2` means `[0.8, 1.2]`
  *saturation = none: float[0,) | [float] ? -- by what the saturation is multiplied; `0.2` means `[0.8, 1.2]`
  *hue = none: float[0,) | [float] ? -- by what part of the circle of colours the hue is turned; `0.1` means
      `[-0.1, 0.1]`
  *range = none: [float] ? -- the lowest and highest number of a pixel; default: `[0, 255]` for `uint8`, else
      `[0, 1]`
cutout: covers a rectangle around a random pixel of an image; for training only
  name: tensor -- which tensor: an image of shape `[height, width, channels]`
  size: int[1,) | [int[1,)] -- the side of a square, or height and width
  *fill = 0: float -- the value of the pixels that are covered
mixup: mixes each example with the next one; for training only
  image: tensor -- the tensor of the images
  label: tensor -- the tensor of the labels: floats, such as one-hot vectors
  alpha = 0.2: float(0,) -- shares are drawn from Beta(alpha, alpha)
rename: `rename(new = old)` renames the tensor `old` to `new`
  **: tensor
""")
LENGTHS = functions("""
multiple_of: the smallest multiple of a number that the longest example of the batch fits into
  n: int[1,) -- the number
""")

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
