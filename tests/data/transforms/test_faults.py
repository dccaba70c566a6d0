"""What is said of transforms that do not go with the data, the model or each other, as users will read it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.data.said import Fault, Faults
from tests.data.sources.test_faults import npz
from tests.data.sources.test_tfrecord import example, record

B = "b = input(int32, [])"
TABLE = {"t.csv": "a0,a1,a2,a3,a4,a5,b\n0,1,2,3,4,5,2\n6,7,8,9,10,11,0\n"}
PICTURES = {
    "bytes": (np.uint8, [5]),
    "flat": (np.float32, [144]),
    "floats": (np.float16, [6, 8, 3]),
    "gray": (np.uint8, [6, 8, 1]),
    "image": (np.uint8, [6, 8, 3]),
    "label": (np.int64, []),
    "wide": (np.int32, [6, 8, 3]),
}


def table(transforms: str, *inputs: str) -> Fault:
    """Return the fault of transforms of a table with the columns a0 to a5, one tensor, and b."""
    return Fault(TABLE, f'csv("t.csv", a = "a*", b = "b"){transforms}', inputs)


def arrays(transform: str, name: str = "image") -> Fault:
    """Return the fault of a transform of images and other arrays, of which the model takes one."""

    def made() -> bytes:
        return npz(**{each: np.zeros([2, *shape], dtype) for each, (dtype, shape) in PICTURES.items()})

    dtype, shape = PICTURES[name]
    return Fault(
        {"i.npz": made}, f'npz("i.npz") -> {transform}', (f"{name} = input({dtype.__name__}, {shape})",)
    )


def lengths(transforms: str, size: int | None = None) -> Fault:
    """Return the fault of transforms of records of five, one and twelve tokens, and a label."""

    def made() -> bytes:
        return b"".join(record(example(tokens=[1] * each, label=[0])) for each in (5, 1, 12))

    features = "tokens = feature(int32, [none]), label = feature(int32)"
    tokens = f"tokens = input(int32, [{size or 'none'}])"
    inputs = (tokens, "label = input(int32, [])")
    return Fault({"t.tfrecord": made}, f'tfrecord("t.tfrecord", {features}){transforms}', inputs)


def series(transforms: str) -> Fault:
    """Return the fault of transforms of a file with ten rows."""
    rows = "".join(f"{each},{each % 7}\n" for each in range(10))
    inputs = ("x = input(float32, [4])", "y = input(float32, [1])")
    return Fault({"s.csv": f"a,b\n{rows}"}, f'csv("s.csv", x = "a", y = "b"){transforms}', inputs)


FAULTS = Faults(
    "",
    (),
    {
        "unknown tensor": table(" -> scale(aa, 2)", B),
        "unknown tensor of a file": arrays("scale(imag, 2)"),
        "unknown old name of a file": arrays("rename(image = bb)"),
        "scale of whole numbers": table(" -> scale(b, 2)", B),
        "reshape": table(" -> reshape(a, [4, 2])", "a = input(float32, [4, 2])"),
        "one_hot of floats": table(" -> cast(b, float32) -> one_hot(b, 3)", "b = input(float32, [3])"),
        "two of one name": table(" -> rename(b = a)", "b = input(float32, [6])"),
        "missing input": table("", B, "image = input(float32, [6])"),
        "missing input, of which several could be a name": table("", "image = input(float32, [6])"),
        "all that does not fit": table(
            "", "a = input(float32, [3])", "b = input(uint8, [1])", "c = input(float32, [])"
        ),
        "shape": table("", "a = input(float32, [2, 3])"),
        "dtype": table(" -> cast(b, int64)", B),
        "classes": table("", "b = input(float32, [3])"),
        "neither": table("", "a = input(float32, [3])"),
        "classes of another shape": table("", "b = input(float32, [2, 3])"),
        "classes of whole numbers": table("", "b = input(int32, [3])"),
        "a cast to text": table(" -> cast(a, string)", B),
        "crop too high": arrays("center_crop(image, [7, 8])"),
        "crop too wide": arrays("center_crop(image, [6, 9])"),
        "crop too wide with its margin": arrays("random_crop(image, [6, 11], pad = 1)"),
        "crop of one size": arrays("center_crop(image, [4])"),
        "crop of three sizes": arrays("random_crop(image, [4, 4, 3])"),
        "crop filled with too much": arrays("random_crop(image, [4, 4], fill = 256)"),
        "cover of three sizes": arrays("cutout(image, [1, 2, 3])"),
        "cover with a fraction": arrays("cutout(gray, 3, fill = 0.5)", "gray"),
        "hue of grey": arrays("random_color(gray, hue = 0.1)", "gray"),
        "saturation of grey": arrays("random_color(gray, saturation = 0.1)", "gray"),
        "no change of colour": arrays("random_color(image)"),
        "empty range": arrays("random_color(image, hue = 0.1, range = [1, 1])"),
        "range upside down": arrays("random_color(image, hue = 0.1, range = [2, 1])"),
        "range of one number": arrays("random_color(image, hue = 0.1, range = [1])"),
        "range of three numbers": arrays("random_color(image, hue = 0.1, range = [0, 1, 2])"),
        "flip of a vector": arrays("random_flip(flat)", "flat"),
        "flip of int32": arrays("random_flip(wide)", "wide"),
        "mixing classes": arrays("mixup(image, label)"),
        "mixing bytes": arrays("mixup(bytes, flat)", "flat"),
        "mixing int32": arrays("mixup(wide, flat)", "flat"),
        "mixing what is not there": arrays("mixup(image, labl)"),
        "mixing lengths": lengths(" -> cast(tokens, float32) -> mixup(tokens, tokens)"),
        "lengths": lengths(""),
        "lengths for a fixed size": lengths("", 6),
        "padded, for a fixed size": lengths(" -> pad(tokens)", 6),
        "reshape of lengths": lengths(" -> reshape(tokens, [2, 3])"),
        "bucket after pad": lengths(" -> pad(tokens) -> bucket(tokens, [4])"),
        "shuffle after bucket": lengths(" -> bucket(tokens, [4]) -> shuffle(4) -> pad(tokens)"),
        "cache after pad": lengths(" -> pad(tokens) -> cache()"),
        "mixing after pad": lengths(" -> pad(tokens) -> cast(label, float32) -> mixup(label, label)"),
        "padding of a fixed size": lengths(" -> pad(label) -> pad(tokens)"),
        "bounds upside down": lengths(" -> bucket(tokens, [8, 4]) -> pad(tokens)"),
        "longer than padded": lengths(" -> pad(tokens, to = 10)", 10),
        "shuffle before window": series(' -> shuffle(9) -> window(4, label = "y")'),
        "window of windows": series(' -> window(4, label = "y") -> window(4, label = "y")'),
        "horizon of no label": series(" -> window(4, horizon = 3)"),
        "gap of no label": series(" -> window(4, gap = 3)"),
        "gap of no horizon": series(' -> window(4, horizon = 0, gap = 3, label = "y")'),
        "label that is not there": arrays('window(4, label = "z")'),
        "rows of different sizes": Fault(
            {"s.csv": "a\n1 2\n1 2 3\n"},
            'csv("s.csv", x = "a") -> window(2) -> pad(x)',
            ("x = input(int32, [2, none])",),
        ),
    },
)


def test_what_does_not_go_together_is_told(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    """At the transform or the source in the spec, with what could be written instead."""
    golden("data/transforms.txt", FAULTS.all_said(tmp_path))
