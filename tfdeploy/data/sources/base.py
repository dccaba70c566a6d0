"""What a source is: raw records in a fixed order, and how they become tensors.

A source keeps the two apart so that raw records (a line of text, the name of an image) can be shuffled,
skipped and dealt out cheaply, and only what is used is decoded, a whole batch at a time if `decode`
allows it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

from dsl.errors.running.running_data import Where, unexplained

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dsl import ir
    from dsl.diagnostics import Diagnostic
    from dsl.source import Span
    from tfdeploy.data.options import Field, Tensors


@frozen
class Context:
    """What a source may know of its surroundings.

    `read_as` is the dtype in which each tensor serves best, for formats without dtypes of their own;
    tensors that are not in it feed nothing. `seed` is that of the spec.
    """

    base: Path
    read_as: Mapping[str, str] = field(factory=dict)
    seed: int | None = None


@frozen
class PythonOnly:
    """Why the examples of a source pass through Python, and how they might do without."""

    reason: str
    advice: str


class Source(ABC):
    """Examples of one kind of file. Making one reads as much as is needed to know its `fields`.

    `call` is the source in the spec. Raises SpecError for wrong arguments, RunError for files that are not
    there or are not what they should be.
    """

    names_tensors: ClassVar[bool] = False
    """Whether keywords of the call name the tensors, as in `csv("x.csv", digit = "column")`."""
    unrepeatable = False
    """Whether reading again may give other examples, so that a fault must be noted when it happens."""
    failure: Diagnostic | None = None
    """A fault that was noted while Python gave examples."""

    asked: tuple[str, float] | None = None
    """What Python has been asked for and has not given yet, in words, and when (`time.monotonic()`)."""

    fields: tuple[Field, ...]

    def __init__(self, call: ir.Call, context: Context) -> None:
        self.call = call
        self.context = context

    @property
    def span(self) -> Span | None:
        """The source in the spec."""
        return self.call.span

    @property
    def per_record(self) -> bool:
        """Whether `decode` takes one record at a time, not a batch of them."""
        return False

    @property
    def needs_python(self) -> PythonOnly | None:
        """Why reading must happen in the process of the client; None if TensorFlow alone reads."""
        return None

    @abstractmethod
    def count(self) -> int | None:
        """Return how many records there are; None if only reading them all would tell."""

    @abstractmethod
    def records(self) -> Any:
        """Return the raw records in their order as a tf.data.Dataset of the current graph."""

    @abstractmethod
    def decode(self, record: Any) -> Tensors:
        """Return the tensors of a batch of raw records, or of one if `per_record`."""

    def decode_as(self, record: Any, floats: frozenset[str]) -> Tensors:  # noqa: ARG002 most have no use for it
        """Return what `decode` does, of which the tensors `floats` may already be float32.

        They will be cast to that next: a source that calculates in floats spares itself two casts.
        """
        return self.decode(record)

    def check(self) -> None:
        """Look at the files as far as that is quick; raises RunError."""
        return

    def where(self, index: int) -> Where:
        """Return where record `index` (from 0) is, for a message."""
        return Where(self.call.name, f"example {index + 1}", call=self.span)

    def fault(self, index: int, reason: str) -> Diagnostic:
        """Say what is wrong with record `index`, which TensorFlow refused for `reason`."""
        return unexplained(self.where(index), reason)


class FileSource(Source):
    """Examples in several files, each of which can be read by itself, one after the other."""

    @abstractmethod
    def counts(self) -> tuple[int, ...]:
        """Return how many records each file has; raises RunError if counting fails."""

    @abstractmethod
    def records_of(self, files: Sequence[int] | None) -> Any:
        """Return the raw records of the files of these numbers, one after the other; of all if None."""

    def count(self) -> int:
        """Return how many records there are in all."""
        return sum(self.counts())

    def records(self) -> Any:
        """Return the records of all files."""
        return self.records_of(None)

    def place(self, index: int) -> tuple[int, int]:
        """Return the file of record `index`, and its number there; what is beyond the end is in the last."""
        counts = self.counts()
        for number, count in enumerate(counts[:-1]):
            if index < count:
                return number, index
            index -= count
        return len(counts) - 1, index
