"""What people see if data cannot be read, or do not fit: of files, and of the spec that reads them."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import tensorflow as tf
from attrs import frozen

from dsl.diagnostics import RunError, SpecError
from dsl.formats.render import human
from dsl.source import Source, Span
from grammar import files
from grammar.lower import lower
from grammar.reports import Reports
from tests.data.conftest import Reader
from tfdeploy.data import Stream

SPEC = """\
tfdeploy = 1

model "m" {{
  {inputs}
}}

data {{
  train = {train}
}}
"""

Content = str | bytes | None | Callable[[], bytes]
"""What a file holds; None stands for a folder. What needs TensorFlow or pyarrow is made as it is written."""

FAILED = tf.errors.InvalidArgumentError(None, None, "Iterator")
"""An error of a session, after which a fault of the data is looked for."""


OTHERS_WORDS = (
    r"((?:be decoded|or was cut off|it cannot be read|numbers cannot be read|unpacking it fails):) .*"
)
"""What is said before words of TensorFlow, Python or pyarrow, which may be others in another version."""


@frozen
class Fault:
    """Files, the split that reads them as a spec has it, and the inputs of the model.

    Attributes:
        files: The files by their names.
        train: The split, or nothing for that of all faults in the table.
        inputs: The inputs, or nothing for those of all faults in the table.
    """

    files: Mapping[str, Content]
    train: str = ""
    inputs: tuple[str, ...] = ()


@frozen
class Faults:
    """A table of faults that are told of one split.

    Attributes:
        train: The split.
        inputs: The inputs of the model.
        table: What is wrong, by its name: the content of the file `bad`, or a fault with more than that.
        always_read: Whether the examples have to be read before a fault is known.
    """

    train: str
    inputs: tuple[str, ...]
    table: Mapping[str, Content | Fault]
    always_read: bool = False

    def said(self, folder: Path, name: str, *, read: bool = False) -> str:
        """Return what is said of a fault; with `read`, the examples are read until TensorFlow fails."""
        found = self.table[name]
        fault = found if isinstance(found, Fault) else Fault({"bad": found})
        for file, content in fault.files.items():
            put(folder / file, content)
        split, inputs = fault.train or self.train, fault.inputs or self.inputs
        return said(Reader(folder), split, inputs, read=read or self.always_read)

    def all_said(self, folder: Path) -> str:
        """Return what is said of all of them, as a golden file has it."""
        return "\n".join(
            f"=== {name}\n{self.said(folder / str(at), name)}" for at, name in enumerate(self.table)
        )


def put(path: Path, content: Content) -> None:
    """Write a file, or make a folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.mkdir()
    elif isinstance(content, str):
        path.write_text(content, encoding="utf-8", newline="")
    else:
        path.write_bytes(content() if callable(content) else content)


def opened(reader: Reader, train: str, inputs: tuple[str, ...]) -> Stream:
    """Open a split that is written as in a spec, whether or not the checks of specs let it pass."""
    source, reports = Source("spec.tfdeploy", SPEC.format(inputs="\n  ".join(inputs), train=train)), Reports()
    gathered = files.gather(source, reports, {})
    facts = lower(gathered.items, Span(source, 0, 0), reports, allow_python=True).facts
    if reports.has_errors:
        raise SpecError(reports.found)
    assert facts.data.train is not None
    split, wanted = facts.data.train, {}
    for each in facts.model.bindings:
        wanted[each.names[0]] = (each.value.dtype, each.value.shape)
    return reader.open(split.source, *split.transforms, wanted=wanted)


def said(reader: Reader, train: str, inputs: tuple[str, ...], *, read: bool = False) -> str:
    """Return what is said of a split as it is opened, checked or read, without folder and others' words."""
    try:
        stream = opened(reader, train, inputs)
        stream.check()
        explained = reader.explained(stream) if read else stream.explain(FAILED)
        found = [explained.diagnostic]
    except SpecError as error:
        found = list(error.diagnostics)
    except RunError as error:
        found = [error.diagnostic]
    text = "".join(human(found)).replace(f"{reader.base}/", "").replace(str(reader.base), "FOLDER")
    assert "Node: " not in text, "what TensorFlow says of its graph is no reason"
    return re.sub(OTHERS_WORDS, r"\1 ...", re.sub(r"[\d,]+( bytes would unpack)", r"...\1", text))
