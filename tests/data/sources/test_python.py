"""The python source: functions of the user's own, and how they fail."""

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.user_code import without_exit
from tests.patience import wait_until
from tfdeploy.runtime.stop import Terminated

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


@pytest.mark.family(every=2)
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
    assert found == [[1], [2]]
    assert json.loads("[3]") == [3]


def test_a_function_in_a_package_is_found(reader: Any) -> None:
    """A dotted name is a module in a folder."""
    write(reader, GENERATOR, "pkg/mine.py")
    assert len(reader.single(reader.open(call(reader, "pkg.mine:examples"), wanted=WANTED))) == 10


# The module; code, message, and the line of the module that is pointed at, None for the spec.


def test_a_text_that_names_no_function_is_a_fault(reader: Any) -> None:
    """It has no colon."""
    found = reader.fault(call(reader, "nowhere"), wanted={})
    assert (found.code, found.message) == ("TFD714", "`nowhere`: this does not name a function")


MADE = "tf.data.Dataset.range(3).map(lambda n: {'x': tf.cast(n, tf.float32)})"
NEVER_AGAIN = f"import functools\n@functools.cache\ndef examples():\n    return {MADE}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def examples():\n    yield {'x': tf.constant(1.0)}", "`x` is a tensor of TensorFlow, not an array"),
        (
            "def examples():\n    yield {'x': [tf.constant(1.0)]}",
            "`x` is no array: Cannot convert a symbolic",
        ),
        (
            "def examples():\n    yield from ({'x': np.float32(1)}, None)",
            "example 1: is a NoneType, not a dict",
        ),
        (f"MADE = {MADE}\ndef examples():\n    return MADE", "gives a dataset that was made before"),
        (NEVER_AGAIN, "gives a dataset that was made before"),
    ],
)
def test_what_tensorflow_has_made_elsewhere_is_no_example(reader: Any, text: str, reason: str) -> None:
    """Nor is None, which is not the end: examples may come after it."""
    write(reader, f"import numpy as np\nimport tensorflow as tf\n{text}\n")
    found = reader.fault(call(reader), wanted={"x": ("float32", ())})
    assert (found.code, reason in found.message) == ("TFD714", True), found


@pytest.mark.parametrize(
    "text",
    [
        "sys.exit(0)",
        "def examples():\n    sys.exit(0)",
        "def examples():\n    yield {'x': np.zeros(2, 'f'), 'y': 1}\n    sys.exit(0)",
    ],
)
def test_code_that_ends_the_process_is_a_fault(reader: Any, text: str) -> None:
    """It would seem to have done its work; a signal still ends the process."""
    write(reader, f"import sys\nimport numpy as np\n{text}\n")
    found = reader.fault(call(reader), wanted=WANTED)
    assert (found.code, "it calls `sys.exit(0)`" in found.message) == ("TFD714", True), found
    with pytest.raises(Terminated), without_exit():
        raise Terminated(143)


def test_a_generator_without_further_examples_ends_in_a_message(reader: Any) -> None:
    """A function that gives nothing when it is called again does not stall training."""
    write(reader, "ONCE = iter([{'n': 1}, {'n': 2}])\ndef examples():\n    return ONCE", "once.py")
    stream = reader.open(call(reader, "once:examples"), wanted={"n": ("int64", ())})
    with pytest.raises(Exception, match="no example when it is called again") as caught:
        reader.batches(stream, 2, repeat=True, most=5)
    explained = stream.explain(caught.value)
    message = "`once:examples`: gives no example when it is called again"
    assert explained.diagnostic.message == message


def test_training_data_is_read_before_the_first_step_asks_for_it(reader: Any) -> None:
    """The first batches are made from the moment that the pipeline starts, beside what else takes time."""
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
        wait_until(read.exists)
