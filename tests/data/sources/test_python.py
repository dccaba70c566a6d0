"""The python source: functions of the user's own, and how they fail."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdeploy.data.sources.generated import ADVICE

WANTED = {"x": ("float32", (2,)), "y": ("int64", ())}


def write(reader: Any, text: str, name: str = "mine.py") -> Path:
    """Write a module beside the spec."""
    path: Path = reader.base / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(dedent(text))
    return path


def call(reader: Any, function: str = "mine:examples", **more: Any) -> Any:
    """Return the source."""
    return reader.call("python", function, **more)


GENERATOR = """
    import numpy as np

    def examples(count=10, scale=1.0):
        for number in range(count):
            yield {"x": np.full([2], number * scale, np.float32), "y": number}
"""
DATASET = """
    import tensorflow as tf

    def examples(count=10):
        return tf.data.Dataset.range(count).map(lambda n: {"x": tf.fill([2], tf.cast(n, tf.float32)), "y": n})
"""
LIST = """
    import numpy as np

    def examples():
        return [{"x": np.full([2], number, np.float32), "y": number} for number in range(10)]
"""


@pytest.mark.parametrize(("text", "size"), [(GENERATOR, None), (DATASET, 10), (LIST, 10)])
def test_generators_datasets_and_lists_give_examples(reader: Any, text: str, size: int | None) -> None:
    """What the function gives is read pass after pass, shuffled and resumed as any source."""
    write(reader, text)
    shuffle = reader.call("shuffle", 4)
    stream = reader.open(call(reader), shuffle, wanted=WANTED, seed=1)
    stream.check()
    assert stream.size == size
    assert stream.needs_python is not None
    whole = reader.column(stream, "y", 3, repeat=True, most=10)
    assert [sorted(whole[:10]), sorted(whole[10:20])] == [list(range(10))] * 2
    resumed = reader.open(call(reader), shuffle, wanted=WANTED, seed=1, skip_examples=13)
    assert reader.column(resumed, "y", 3, repeat=True, most=5) == whole[13:28]
    (batch,) = reader.batches(reader.open(call(reader), wanted=WANTED), 20)
    np.testing.assert_array_equal(batch["x"], np.repeat(np.arange(10), 2).reshape(10, 2))


def test_keywords_are_the_arguments(reader: Any) -> None:
    """Keywords of the source reach the function."""
    write(reader, GENERATOR)
    stream = reader.open(call(reader, count=3, scale=0.5), wanted=WANTED)
    assert reader.column(stream, "x") == [[0, 0], [0.5, 0.5], [1, 1]]


def test_a_module_beside_the_spec_hides_no_other(reader: Any, tmp_path_factory: Any) -> None:
    """A module beside the spec comes first, may import others there, and may bear any name."""
    write(reader, "from helper import NUMBER\ndef examples():\n    yield {'n': NUMBER}\n", "json.py")
    write(reader, "NUMBER = 1\n", "helper.py")
    other = type(reader)(tmp_path_factory.mktemp("other"))
    write(other, "def examples():\n    yield {'n': 2}\n", "json.py")
    found = [
        each.column(each.open(call(each, "json:examples"), wanted={"n": ("int64", ())}), "n")
        for each in (reader, other)
    ]
    import json

    assert found == [[1], [2]]
    assert json.loads("[3]") == [3]


def test_a_function_in_a_package_is_found(reader: Any) -> None:
    """A dotted name is a module in a folder."""
    write(reader, GENERATOR, "pkg/mine.py")
    assert len(reader.single(reader.open(call(reader, "pkg.mine:examples"), wanted=WANTED))) == 10


# The module; code, message, and the line of the module that is pointed at, None for the spec.
ANY_SIZE = """
import tensorflow as tf


def examples():
    shapes = {"x": tf.TensorSpec([None])}
    return tf.data.Dataset.from_generator(lambda: [{"x": [1.0]}], output_signature=shapes)
"""
BROKEN: dict[str, tuple[str, str, int | None]] = {
    "no function": ("x = 1", "its module has no function `examples`", None),
    "fails on import": ("import os\nraise ValueError('no data')", "raises ValueError: no data", 2),
    "syntax": ("def examples(:\n    pass", "raises SyntaxError: invalid syntax (mine.py, line 1)", 1),
    "missing module": (
        "import not_there_at_all",
        "raises ModuleNotFoundError: No module named 'not_there_at_all'",
        1,
    ),
    "fails when called": (
        "def examples():\n    return 1 / 0",
        "raises ZeroDivisionError: division by zero",
        2,
    ),
    "other arguments": (
        "def examples(a):\n    yield {}",
        "raises TypeError: examples() missing 1 required positional argument: 'a'",
        None,
    ),
    "gives None": ("def examples():\n    pass", "gives a NoneType", None),
    "gives a dict": ("def examples():\n    return {'x': [1]}", "gives a dict", None),
    "gives tuples": ("def examples():\n    yield 1, 2", "is a tuple, not a dict of arrays", None),
    "gives text": ("def examples():\n    yield {'x': 'a'}", "`x` holds <U1, not numbers", None),
    "ragged": (
        "def examples():\n    yield {'x': [[1], [1, 2]]}",
        "`x` is no array: setting an array element with a sequence",
        None,
    ),
    "dataset of tuples": (
        "import tensorflow as tf\ndef examples():\n    return tf.data.Dataset.range(3)",
        "its dataset does not hold dicts of named tensors",
        None,
    ),
    "dataset of any size": (
        ANY_SIZE,
        f"`x` in its dataset is {tf.TensorSpec([None])}, not a tensor of known dtype and shape",
        None,
    ),
    "fails later": (
        "def examples():\n    yield {'x': 1.0}\n    raise OSError('gone')",
        "raises OSError: gone",
        3,
    ),
    "other shape later": (
        "def examples():\n    yield {'x': 1.0}\n    yield {'x': [1.0]}",
        "`x` is float64[1], and float64[] in the first one",
        None,
    ),
    "other names later": (
        "def examples():\n    yield {'x': 1.0}\n    yield {'y': 1.0}",
        "lacks `x`, which the first one has",
        None,
    ),
    "more names later": (
        "def examples():\n    yield {'x': 1.0}\n    yield {'x': 1.0, 'z': 1.0}",
        "has `z`, which the first one lacks",
        None,
    ),
}


ADVISED = {
    **dict.fromkeys(("gives None", "gives a dict", "gives tuples", "dataset of tuples"), ADVICE),
    "dataset of any size": "give it a shape with tf.ensure_shape, or fill its examples up: `-> pad(x)`",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_function_that_fails_is_located(reader: Any, kind: str) -> None:
    """The diagnostic names the function and the example, and points at the line of the module that failed."""
    text, message, line = BROKEN[kind]
    path = write(reader, text)
    found = reader.fault(call(reader), wanted={"x": ("float64", ())})
    assert found.code == "TFD714"
    assert found.message.partition(": ")[2] == message
    assert found.message.startswith("`mine:examples`")
    assert found.help == ADVISED.get(kind)
    assert found.span is not None
    if line is None:
        assert found.span.source.name == "spec.tfdeploy"
    else:
        assert (found.span.source.name, found.span.begin.line) == (str(path), line)


def test_a_function_that_is_not_there_is_said(reader: Any) -> None:
    """A module that does not exist, and text that names no function, are faults."""
    messages = {
        "nowhere:examples": "there is no module `nowhere`, neither beside the spec nor installed",
        "nowhere": "this does not name a function",
    }
    for function, message in messages.items():
        found = reader.fault(call(reader, function), wanted={})
        assert (found.code, found.message) == ("TFD714", f"`{function}`: {message}")


def test_a_generator_without_examples_ends_in_a_message(reader: Any) -> None:
    """A function that gives nothing, at once or when called again, does not stall training."""
    write(reader, "def examples():\n    return iter(())")
    found = reader.fault(call(reader), wanted={})
    assert (found.code, found.message) == ("TFD703", "`mine:examples`: it gives no example")
    write(reader, "ONCE = iter([{'n': 1}, {'n': 2}])\ndef examples():\n    return ONCE", "once.py")
    stream = reader.open(call(reader, "once:examples"), wanted={"n": ("int64", ())})
    with pytest.raises(Exception, match="no example when it is called again") as caught:
        reader.batches(stream, 2, repeat=True, most=5)
    explained = stream.explain(caught.value)
    message = "`once:examples`: gives no example when it is called again"
    assert explained.diagnostic.message == message


def test_training_data_is_read_before_the_first_step_asks_for_it(reader: Any) -> None:
    """The first batches are made from the moment that the pipeline starts, beside what else takes time."""
    import time

    import tensorflow as tf

    read = reader.base / "read"
    write(
        reader,
        f"""
        import pathlib

        import numpy as np

        def examples():
            for number in range(100):
                with pathlib.Path({str(read)!r}).open("a") as file:
                    file.write("x")
                yield {{"x": np.full([2], number, np.float32), "y": number}}
        """,
    )
    stream = reader.open(call(reader), wanted=WANTED)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batches = stream.batches(2, repeat=True, drop_remainder=True)
        iterator = tf.compat.v1.data.make_initializable_iterator(batches)
        read.unlink(missing_ok=True)
        session.run(iterator.initializer)
        end = time.monotonic() + 20
        while not read.exists() and time.monotonic() < end:
            time.sleep(0.01)
        assert read.exists()


def test_a_dataset_that_fails_says_why(reader: Any) -> None:
    """In the words of its function, without those of TensorFlow about the pipeline."""
    write(
        reader,
        """
        import tensorflow as tf

        def example(number):
            small = tf.debugging.Assert(number < 9, ["too large"])
            with tf.control_dependencies([small]):
                return {"n": tf.identity(number)}

        def examples():
            return tf.data.Dataset.range(12).map(example)
        """,
    )
    found = reader.fault(call(reader), wanted={"n": ("int64", ())})
    assert (found.code, found.message) == (
        "TFD714",
        "`mine:examples`: its dataset fails: assertion failed: [too large]",
    )
