"""What is said of files that a source cannot read, with the place, the advice and the source in the spec.

`tests/golden/data/` has a file for each source, which is to be read as users will read it.
"""

import gzip
import io
import struct
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.data.conftest import Reader
from tests.data.said import Fault, Faults
from tests.data.shared_files import KINDS, Kind
from tests.data.sources.test_binary import DIGITS, LABELS, cifar, idx
from tests.data.sources.test_images import jpeg, png
from tests.data.sources.test_masks import mask, numbers
from tests.data.sources.test_tfrecord import example, good, record
from tests.folders import ROOT

LONG = "".join(f"{each},{each}.5,{each}\n" for each in range(3000))
XY = ("x = input(float32, [2])", "y = input(int32, [])")
N, X = ("n = input(int32, [])",), ("x = input(float32, [])",)

CSV = Faults(
    'csv("bad", x = "x*", y = "y")',
    XY,
    {
        "empty file": "",
        "only blank lines": "\n\r\n\n",
        "blank first line": "\nx1,x2,y\n1,2,3\n",
        "missing column": "x1,x2\n1,2\n",
        "no header": "1,2,3\n4,5,6\n",
        "semicolons": "x1;x2;y\n1;2,5;3\n",
        "column twice": "x1,x2,y,y\n1,2,3,4\n",
        "globbed column twice": "x1,x1,y\n1,2,3\n",
        "old line ends": "x1,x2,y\r1,2,3\r",
        "UTF-16": "x1,x2,y\n1,2,3\n".encode("utf-16"),
        "not UTF-8": b"x1,x2,\xe4,y\n1,2,0,3\n",
        "binary": b"\x7fELF\0\0,x1",
        "header quote": 'x1,x2,"y\n1,2,3\n',
        "short first row": "x1,x2,y\n1,2\n",
        "short row": f"x1,x2,y\n{LONG}1\n{LONG}",
        "long row": f"x1,x2,y\n{LONG}1,2,3,4\n",
        "hexadecimal": f"x1,x2,y\n{LONG}1,-0X1p3,2\n",
        "row after blank lines": "x1,x2,y\n1,2,3\n\n\n1,oops,3\n",
        "row after quoted lines": 'x1,x2,t,y\n1,2,"a\nb",3\n1,oops,c,3\n',
        "no number": f"x1,x2,y\n{LONG}1,abc,3\n",
        "fraction": "x1,x2,y\n1,2,3.5\n",
        "empty cell": "x1,x2,y\n1,,3\n",
        "blank cell": "x1,x2,y\n1,2, \n",
        "nan": f"x1,x2,y\n{LONG}1,nan,3\n",
        "infinite": "x1,x2,y\n-inf,2,3\n",
        "too large a float": "x1,x2,y\n1,1e50,3\n",
        "too large a number": "x1,x2,y\n1,2,3000000000\n",
        "open quote": f'x1,x2,y\n{LONG}1,2,"3\n{LONG}',
        "stray quote": f'x1,x2,y\n1,2"2,3\n{LONG}1,"2",3\n',
        "text after quote": 'x1,x2,y\n1,"2"3,4\n',
        "cut off": gzip.compress(f"x1,x2,y\n{LONG}".encode())[:-20],
        "no such file": Fault({"train.csv": "n\n1\n"}, 'csv("trian.csv", n = "n")', N),
        "no match": Fault({"train.csv": "n\n1\n"}, 'csv("trian*.csv", n = "n")', N),
        "a folder": Fault({"folder": None}, 'csv("folder", n = "n")', N),
        "below a folder": Fault({"folder": None}, 'csv("folder/x/y.csv", n = "n")', N),
        "a similar column": Fault({"a.csv": "width,height\n1,2\n"}, 'csv("a.csv", x = "widht")', X),
        "a header alone": Fault({"a.csv": "n\n"}, 'csv("a.csv", n = "n")', N),
        "all skipped": Fault({"a.csv": "n\n1\n2\n3\n"}, 'csv("a.csv", n = "n") -> skip(3)', N),
        "other columns": Fault({"a1.csv": "x,y\n1,2\n", "a2.csv": "y,x\n1,2\n"}, 'csv("a*.csv", x = "x")', X),
        "a later file": Fault({"p1": "n\n1\n2\n", "p2": "n\n3\nfour\n"}, 'csv("p*", n = "n")', N),
        "no class": Fault(
            {"a.csv": "n\n" + "1\n" * 2000 + "7\n"},
            'csv("a.csv", n = "n") -> one_hot(n, 3)',
            ("n = input(float32, [3])",),
        ),
    },
)


def described(content: bytes, feature: str) -> Fault:
    """Return a file of a good record and a bad one, of which one feature is read."""
    train = f'tfrecord("a", x = feature({feature}))'
    dtype, _, shape = feature.partition(", ")
    shape = shape.partition("]")[0].removeprefix("shape = ") + "]" if shape.startswith("[") else "[]"
    return Fault({"a": record(content)}, train, (f"x = input({dtype}, {shape})",))


TFRECORD = Faults(
    'tfrecord("bad", x = feature(float32, [2, 2]), y = feature(int32))',
    ("x = input(float32, [2, 2])", "y = input(int32, [])"),
    {
        "empty": b"",
        "text": b"x,y\n1,2\n",
        "long text": b"x,y\n" + b"1,2\n" * 9,
        "cut off": record(good(1)) * 9 + record(good(1))[:-9],
        "cut off in a length": record(good(1)) + struct.pack("<Q", 9),
        "altered": record(good(1)) * 300 + record(good(1)).replace(b"x", b"z") + record(good(1)),
        "no example": record(good(1)) + record(b"\xff\xff"),
        "missing feature": record(good(1)) + record(example(x=[1.0] * 4, why=[1])),
        "other kind": record(good(1)) * 20 + record(example(x=[1.0] * 4, y=[1.0])),
        "bytes": record(example(x=[b"abc"], y=[1])),
        "too few": record(good(1)) * 7 + record(example(x=[1.0] * 3, y=[1])),
        "too large": record(good(1)) * 7 + record(example(x=[1.0] * 4, y=[2**31])),
        "packed": gzip.compress(record(good(1))),
        "not packed": Fault(
            {"a": record(good(1))}, 'tfrecord("a", y = feature(int32), compression = gzip)', XY[1:]
        ),
        "another key": described(good(1), 'float32, [2, 2], key = "z"'),
        "numbers for text": described(example(x=[1]), "string"),
        "numbers for bytes": described(example(x=[1]), "uint8, [4], encoding = raw"),
        "none": described(example(x=[]), "float32, [1]"),
        "two for one": described(example(x=[1.0, 2.0]), "float32"),
        "two texts for one": described(example(x=[b"ab", b"cd"]), "uint8, [2], encoding = raw"),
        "too few bytes": described(example(x=[b"abc"]), "int16, [2], encoding = raw"),
        "too large for a byte": described(example(x=[256]), "uint8, [1]"),
        "below a byte": described(example(x=[-1]), "uint8, [1]"),
        "no image": described(example(x=[b"no image"]), "uint8, [2, 2, 1], encoding = image"),
        "no pairs": Fault(
            {"a": record(example(x=[1.0, 2.0, 3.0]))},
            'tfrecord("a", x = feature(float32, [none, 2])) -> pad(x)',
            ("x = input(float32, [none, 2])",),
        ),
        "no list in any": Fault(
            {"a": record(example(y=[1.0]))},
            'tfrecord("a", x = feature(float32, [none])) -> pad(x)',
            ("x = input(float32, [none])",),
        ),
    },
)


def npz(**arrays: np.ndarray) -> bytes:
    """Return an archive."""
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]  # as NumPy's own examples do
    return file.getvalue()


def npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    """Return the file of an array."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def zipped(**members: bytes) -> bytes:
    """Return an archive of files as they are."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def altered() -> bytes:
    """Return a packed archive in which a number is another one."""
    file = io.BytesIO()
    np.savez_compressed(file, x=np.random.default_rng(0).normal(size=30_000).astype(np.float32))
    data = bytearray(file.getvalue())
    data[len(data) // 2] ^= 0xFF
    return bytes(data)


def swelling() -> bytes:
    """Return an archive with 78 MB of zeros in a file of a few."""
    file = io.BytesIO()
    np.savez_compressed(file, x=np.zeros((300, 1 << 18), np.uint8))
    return file.getvalue()


def objects() -> bytes:
    """Return an archive with Python objects, which could run code as they are loaded."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=True, x=np.array([{}] * 50, dtype=object))
    return file.getvalue()


NUMBERS = np.arange(6, dtype=np.float32)

NPZ = Faults(
    'npz("bad", x = "x")',
    X,
    {
        "empty": b"",
        "text": b"x,y\n1,2\n",
        "a single array": npy(NUMBERS),
        "cut off": npz(x=NUMBERS)[:-90],
        "no array": npz(),
        "another array": npz(y=NUMBERS),
        "a number": npz(x=np.array(1.0)),
        "complex": npz(x=NUMBERS.astype(complex)),
        "durations": npz(x=NUMBERS.astype("m8[s]")),
        "dates": npz(x=NUMBERS.astype("M8[s]")),
        "records": npz(x=np.zeros(3, [("a", "i4")])),
        "objects": objects,
        "no examples": npz(x=NUMBERS[:0]),
        "cut off within": zipped(x=npy(NUMBERS)[:-4]),
        "another version": zipped(x=npy(NUMBERS, (3, 0))),
        "altered": altered,
        "swelling": Fault({"a": swelling}, 'npz("a")', ("x = input(uint8, [262_144])",)),
        "lengths": Fault({"a": npz(x=NUMBERS, y=NUMBERS[:4])}, 'npz("a")', (*X, "y = input(float32, [])")),
        "several files": Fault({"a.npz": npz(x=NUMBERS), "b.npz": npz()}, 'npz("*.npz")', X),
    },
)

CIFAR10 = Faults(
    'cifar10("*bad")',
    ("image = input(uint8, [32, 32, 3])", "label = input(int32, [])"),
    {
        "empty": b"",
        "size": cifar(0, 3)[:-1],
        "first label": b"\x0a" + bytes(3072),
        "label": Fault({"a bad": cifar(0, 5), "b bad": cifar(0, 20) + b"\x0b" + bytes(3072)}),
    },
)


def two(images: bytes, labels: bytes) -> Fault:
    """Return the two files of mnist."""
    return Fault({"images": images, "labels": labels})


def altered_digits() -> bytes:
    """Return packed images of which a byte is another one."""
    pixels = np.random.default_rng(0).integers(0, 256, [5000, 4, 5], np.uint8)
    data = bytearray(gzip.compress(idx(pixels)))
    data[len(data) // 2] ^= 0xFF
    return bytes(data)


IMAGES_OF_DIGITS, LABELS_OF_DIGITS = idx(DIGITS[..., 0]), idx(LABELS)

MNIST = Faults(
    'mnist(images = "images*", labels = "labels")',
    ("image = input(uint8, [4, 5, 1])", "label = input(int32, [])"),
    {
        "empty": two(b"", LABELS_OF_DIGITS),
        "swapped": two(LABELS_OF_DIGITS, IMAGES_OF_DIGITS),
        "other": two(b"PK\3\4", LABELS_OF_DIGITS),
        "tiny": two(b"\0\0\x08", LABELS_OF_DIGITS),
        "header": two(IMAGES_OF_DIGITS[:9], LABELS_OF_DIGITS),
        "short": two(IMAGES_OF_DIGITS[:-1], LABELS_OF_DIGITS),
        "short labels": two(IMAGES_OF_DIGITS, LABELS_OF_DIGITS[:-1]),
        "lengths": two(IMAGES_OF_DIGITS, idx(LABELS[:7])),
        "cut off": two(gzip.compress(IMAGES_OF_DIGITS)[:20], LABELS_OF_DIGITS),
        "altered": Fault({"images": altered_digits, "labels": idx(np.zeros([5000], np.uint8))}),
        "two files": Fault(
            {"images1": IMAGES_OF_DIGITS, "images2": IMAGES_OF_DIGITS, "labels": LABELS_OF_DIGITS}
        ),
    },
)


def pictures(**last: Any) -> Fault:
    """Return folders of images, of which the last one is as given."""
    good_ones: dict[str, Any] = {f"pictures/c/{each}.png": lambda: png(7) for each in range(40)}
    return Fault(
        {**good_ones, **{f"pictures/d/{name}".replace("_", "."): each for name, each in last.items()}}
    )


IMAGES = Faults(
    'images("pictures", [4, 6])',
    ("image = input(uint8, [4, 6, 3])", "label = input(int32, [])"),
    {
        "empty file": pictures(a_png=b""),
        "text": pictures(a_png=b"not an image at all"),
        "cut off PNG": pictures(a_png=lambda: png(7, 40, 60)[:-30]),
        "cut off JPEG": pictures(a_png=lambda: jpeg(7)[:300]),
        "another format": pictures(a_webp=b"RIFF"),
        "one that can be converted": pictures(a_tiff=b"II*\0"),
        "no folder": Fault({}),
        "a file": Fault({"pictures": "a file"}),
        "no class": Fault({"pictures": None}),
        "an empty class": Fault({"pictures/a/1.png": lambda: png(1), "pictures/b": None}),
        "no image of a class": Fault(
            {"pictures/stray.jpg": lambda: jpeg(1), "pictures/a/1.png": lambda: png(1)}
        ),
        "no ending": pictures(photo=lambda: jpeg(1)),
        "a missing class": Fault(
            {"pictures/a/1.png": lambda: png(1)}, 'images("pictures", [4, 6], classes = ["a", "b"])'
        ),
        "a class too many": Fault(
            {"pictures/a/1.png": lambda: png(1), "pictures/b/1.png": lambda: png(1)},
            'images("pictures", [4, 6], classes = ["a"])',
        ),
        "a class twice": Fault(
            {"pictures/a/1.png": lambda: png(1)}, 'images("pictures", [4, 6], classes = ["a", "a"])'
        ),
        "no transparency": Fault(
            {"pictures/a/1.jpg": lambda: jpeg(1)},
            'images("pictures", [4, 6], 4)',
            ("image = input(uint8, [4, 6, 4])",),
        ),
        "a similar folder": Fault({"picture": None, "picturas": ""}),
    },
)


def pair(mask_name: str, content: Any, image: Any = lambda: png(1, 6, 8)) -> Fault:
    """Return images with masks, of which the last one is as given."""
    files: dict[str, Any] = {f"photos/{at}.png": lambda: png(1, 6, 8) for at in range(12)}
    files |= {f"masks/{at}.png": mask(numbers()) for at in range(12)}
    return Fault({**files, "photos/9.png": image, f"masks/{mask_name}": content})


def wide() -> bytes:
    """Return an image of numbers of 16 bits."""
    return bytes(tf.io.encode_png(numbers()[..., None].astype(np.uint16)).numpy())


MASKS = Faults(
    'images("photos", [6, 8], masks = "masks")',
    ("image = input(uint8, [6, 8, 3])", "mask = input(uint8, [6, 8, 1])"),
    {
        "another size": pair("9.png", mask(numbers(0, 7, 9))),
        "colours": pair("9.png", lambda: png(7, 6, 8)),
        "wide numbers": pair("9.png", wide),
        "JPEG": pair("9.png", lambda: jpeg(1)),
        "cut off": pair("9.png", mask(numbers())[:-30]),
        "a short file": pair("9.png", mask(numbers())[:20]),
        "empty": pair("9.png", b""),
        "an image that is cut off": pair("9.png", mask(numbers()), lambda: png(1, 6, 8)[:-20]),
        "a photo that is cut off": pair("9.png", mask(numbers()), lambda: jpeg(7)[:300]),
        "no image": pair("12.png", mask(numbers())),
        "no mask": Fault({"photos/1.png": b"", "photos/2.png": b"", "masks/1.png": b""}),
        "one name": Fault({"photos/1.png": b"", "photos/1.jpg": b"", "masks/1.png": b""}),
        "no folder": Fault({"photos/1.png": b"", "mask/1.png": b""}),
    },
)

ANY_SIZE = """
import tensorflow as tf


def examples():
    shapes = {"x": tf.TensorSpec([None])}
    return tf.data.Dataset.from_generator(lambda: [{"x": [1.0]}], output_signature=shapes)
"""
FAILING_DATASET = """
import tensorflow as tf

def example(number):
    small = tf.debugging.Assert(number < 9, ["too large"])
    with tf.control_dependencies([small]):
        return {"x": tf.identity(number)}

def examples():
    return tf.data.Dataset.range(12).map(example).map(lambda each: {"x": tf.cast(each["x"], tf.float64)})
"""
MODULES = {
    "no function": "x = 1",
    "fails on import": "import os\nraise ValueError('no data')",
    "syntax": "def examples(:\n    pass",
    "missing module": "import not_there_at_all",
    "fails when called": "def examples():\n    return 1 / 0",
    "other arguments": "def examples(a):\n    yield {}",
    "gives None": "def examples():\n    pass",
    "gives a dict": "def examples():\n    return {'x': [1]}",
    "gives tuples": "def examples():\n    yield 1, 2",
    "gives text": "def examples():\n    yield {'x': 'a'}",
    "gives nothing": "def examples():\n    return iter(())",
    "ragged": "def examples():\n    yield {'x': [[1], [1, 2]]}",
    "dataset of tuples": "import tensorflow as tf\ndef examples():\n    return tf.data.Dataset.range(3)",
    "dataset of any size": ANY_SIZE,
    "dataset that fails": FAILING_DATASET,
    "fails later": "def examples():\n    yield {'x': 1.0}\n    raise OSError('gone')",
    "other shape later": "def examples():\n    yield {'x': 1.0}\n    yield {'x': [1.0]}",
    "other names later": "def examples():\n    yield {'x': 1.0}\n    yield {'y': 1.0}",
    "more names later": "def examples():\n    yield {'x': 1.0}\n    yield {'x': 1.0, 'z': 1.0}",
}

PYTHON = Faults(
    'python("mine:examples")',
    ("x = input(float64, [])",),
    {
        **{name: Fault({"mine.py": module}) for name, module in MODULES.items()},
        "no module": Fault({}, 'python("nowhere:examples")'),
    },
    always_read=True,
)


def table(form: str, **columns: Any) -> Callable[[], bytes]:
    """Return what makes a Parquet or an Arrow file; pyarrow starts threads, and comes after the forks."""

    def made() -> bytes:
        rows, file = import_module("pyarrow").table(columns), io.BytesIO()
        if form == "parquet":
            import_module("pyarrow.parquet").write_table(rows, file)
        else:
            import_module("pyarrow.feather").write_feather(rows, file)
        return file.getvalue()

    return made


def cells(form: str, first: Any, *others: Any) -> dict[str, Any]:
    """Return a sound file, and one whose last cells are others, far behind the first."""
    return {"0": table(form, x=[first] * 5), "1": table(form, x=[first] * 1500 + list(others))}


def tables(form: str) -> Faults:
    """Return the faults of one of the two formats."""
    one, pair_of = ("x = input(int8, [])",), ("x = input(int8, [2])",)
    listed = f'{form}("*", x = feature(int8, [2]))'
    image = f'{form}("*", x = feature(uint8, [2, 2, 3], encoding = image))'
    raw = f'{form}("*", x = feature(float32, [2], encoding = raw))'
    file = table(form, n=[1, 2], kind=["a", "b"], list=[[1], [1, 2]], equal=[[[1]], [[2]]], raw=[b"a", b"b"])
    columns = {
        "no such column": 'x = "m"',
        "text": 'x = "kind"',
        "a list among columns": 'x = ["n", "list"]',
        "lists of lists": 'x = "equal"',
        "bytes": 'x = "raw"',
        "no bytes": 'x = feature(uint8, [2, 2, 3], key = "n", encoding = image)',
        "floats": 'x = "n") -> cast(x, int32',
    }
    return Faults(
        f'{form}("*", x = "x")',
        X,
        {
            "null": Fault(cells(form, 1, None, 3), inputs=one),
            "too large": Fault(cells(form, 1, 300, 3), inputs=one),
            "null in a list": Fault(cells(form, [1, 2], [3, None], [5, 6]), listed, pair_of),
            "short list": Fault(cells(form, [1, 2], [3], [5, 6]), listed, pair_of),
            "too large for a float": Fault(cells(form, 1.0, 1e300, 3.0)),
            "no image": Fault(
                {"0": table(form, x=[mask(numbers(0, 2, 2))] * 60 + [b"no image"])},
                image,
                ("x = input(uint8, [2, 2, 3])",),
            ),
            "too few bytes": Fault(
                {"0": table(form, x=[bytes(8)] * 60 + [bytes(7)])}, raw, ("x = input(float32, [2])",)
            ),
            "other columns": Fault({"0": table(form, x=[1.0]), "1": table(form, y=[1.0])}),
            "another type": Fault({"0": table(form, x=[1.0]), "1": table(form, x=[1])}),
            "no rows": Fault({"0": table(form, x=list[float]())}),
            "empty": Fault({"0": b""}),
            "another format": Fault({"0": b"no table at all" * 100}),
            **{name: Fault({"0": file}, f'{form}("*", {each})') for name, each in columns.items()},
        },
    )


SOURCES = {
    "csv": CSV,
    "tfrecord": TFRECORD,
    "npz": NPZ,
    "cifar10": CIFAR10,
    "mnist": MNIST,
    "images": IMAGES,
    "masks": MASKS,
    "python": PYTHON,
    "parquet": tables("parquet"),
    "arrow": tables("arrow"),
}
LONGER = {"tfrecord", "images", "masks", "parquet"}
"""Those whose words `make full` reads, beside the others that are much like them."""


@pytest.mark.parametrize(
    "source", [pytest.param(each, marks=pytest.mark.full if each in LONGER else ()) for each in SOURCES]
)
def test_what_cannot_be_read_is_told(tmp_path: Path, golden: Callable[[str, str], None], source: str) -> None:
    """With the file, the place in it, a code, and the source in the spec, or one of its arguments."""
    golden(f"data/{source}.txt", SOURCES[source].all_said(tmp_path))


@pytest.mark.family(every=16)
@pytest.mark.parametrize(
    ("source", "fault"), [(name, each) for name, source in SOURCES.items() for each in source.table]
)
def test_what_cannot_be_read_ends_the_reading(tmp_path: Path, source: str, fault: str) -> None:
    """With the same words: the fault is looked for after TensorFlow has failed."""
    words = (ROOT / f"tests/golden/data/{source}.txt").read_text()
    told = words.partition(f"=== {fault}\n")[2].partition("\n=== ")[0]
    assert SOURCES[source].said(tmp_path, fault, read=True).rstrip() == told.rstrip()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_examples_of_sound_files_have_places(kind: Kind, reader: Reader) -> None:
    """They are told with what is found later, such as a loss that is not finite; none has a fault itself.

    Only an image is taken for a file that cannot be decoded, because nothing else of it can be refused.
    """
    kind.write(reader.base)
    stream = kind.opened(reader)
    for number in (0, 7, 29):
        assert stream.where(number) == stream.source.where(number)
        code = "TFD713" if kind.name == "images" else "TFD715"
        assert stream.source.fault(number, "refused").code == code
    assert PLACES[kind.name] == stream.where(7).words.replace(f"{reader.base}/", "")


PLACES = {
    "csv": "`n-1.csv`, row 4",
    "tfrecord": "`n-1.tfrecord`, record 2",
    "cifar10": "`n-1.bin`, record 2",
    "images": "`pictures/0/14.png`",
    "npz": "`n.npz`, example 7",
    "mnist": "`images`, image 7",
    "synthetic": "`synthetic`, example 8",
}
"""Where the eighth example of each source is."""
