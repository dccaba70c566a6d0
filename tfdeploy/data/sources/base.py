"""The base class of sources: raw records in a fixed order, and how they become tensors.

The two are separate, so that raw records (a line of text, the name of an image) can be shuffled, skipped and
distributed cheaply. Only what is used is decoded, a whole batch at a time if `decode` allows it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from attrs import evolve, field, frozen

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors.data import Where, unexplained
from tfdeploy.data.arguments import Field, Tensors, bind
from tfdeploy.data.sources.files import find_files

Given = TypeVar("Given")


@frozen
class Context:
    """What a source knows about the spec and the model.

    Attributes:
        base: The folder of the spec, from which relative paths start.
        read_as: The dtype in which each tensor is to be read, for formats without own dtypes. A tensor
            that is not in it feeds no input.
        free: The axes without a fixed size of the tensors that `pad` fills, by the name of the tensor.
        longest: The size that the first axis of each tensor has in the input that it feeds, or is assumed to
            have there.
    """

    base: Path
    read_as: Mapping[str, str] = field(factory=dict)
    free: Mapping[str, frozenset[int]] = field(factory=dict)
    longest: Mapping[str, int] = field(factory=dict)


@frozen
class PythonOnly:
    """Why the examples of a source pass through Python.

    Attributes:
        reason: The reason.
        advice: What the user can do to avoid it.
    """

    reason: str
    advice: str


@frozen(eq=False)
class Asked:
    """An example for which Python was asked.

    Attributes:
        what: The example in words.
        reader: Who asked for it; nothing if there is only one reader.
        since: When that was (`time.monotonic()`).
    """

    what: str
    reader: str
    since: float


class Source(ABC):
    """Examples of one kind of file. Its constructor reads as much as is needed to know its `fields`.

    Args:
        call: The source in the spec.
        context: What the source knows about the spec and the model.

    Raises:
        SpecError: If arguments are wrong.
        RunError: If files are missing or damaged.
    """

    names_tensors: ClassVar[bool] = False
    """Whether keywords of the call name the tensors, as in `csv("x.csv", digit = "column")`."""
    finite = True
    """Whether its numbers are finite, because they are whole or because it refuses others."""
    unrepeatable = False
    """Whether reading again may give other examples, so that a fault must be stored when it happens."""
    gives_tensors = False
    """Whether records are dicts of tensors already, which `decode` does not change."""
    per_record = False
    """Whether `decode` takes one record at a time, not a batch of them."""
    fields: tuple[Field, ...]
    length: int | None = None

    def __init__(self, call: ir.Call, context: Context) -> None:
        self.call = call
        self.span = call.span
        self.given = bind(call)
        self.context = context
        self.asked: list[Asked] = []  # the examples for which Python was asked, and which have not come yet
        self.reader = ""
        self.failures: list[Diagnostic] = []  # the faults while Python gave examples to any reader

    def found(self, argument: str = "path") -> tuple[Path, ...]:
        """Return the files that an argument names; raises RunError if there are none."""
        return find_files(self.given[argument], self.context.base, self.given.span(argument))

    def at(self, path: Path | str, place: str = "") -> Where:
        """Return a place for messages.

        Args:
            path: A file, a folder, or what is in place of one.
            place: The place in it, in words; nothing for the whole.
        """
        return Where(str(path), place, call=self.span)

    @property
    def ragged(self) -> bool:
        """Whether tensors can have different sizes in a batch."""
        return any(each.ragged for each in self.fields)

    @property
    def needs_python(self) -> PythonOnly | None:
        """Why the data must be read in the process of the client; None if TensorFlow alone reads it."""
        return None

    def count(self) -> int | None:
        """Return the number of records; None if it can be known only by reading all of them."""
        return self.length

    def read_by(self, reader: str) -> Self:
        """Return this source for one of several readers, who is named in `asked`.

        Args:
            reader: The reader in words; nothing if it is the only one.
        """
        own = copy(self)
        own.reader = reader
        return own

    @abstractmethod
    def records(self) -> Any:
        """Return the raw records, in order, as a tf.data.Dataset in the current graph."""

    def decode(self, record: Any) -> Tensors:
        """Return the tensors of a batch of raw records, or of one if `per_record`.

        Records that hold the tensors already are returned as they are.
        """
        tensors: Tensors = dict(record)
        return tensors

    def decode_as(self, record: Any, floats: frozenset[str]) -> Tensors:  # noqa: ARG002 most have no use for it
        """Decode as `decode` does, but the tensors `floats` may be float32.

        They are cast to float32 next, so that a source that calculates in floats can omit two casts.

        Args:
            record: A batch of raw records, or one if `per_record`.
            floats: The names of tensors that may be float32.
        """
        return self.decode(record)

    def noting(self, records: Iterable[Given]) -> Iterator[Given]:
        """Yield what Python gives to TensorFlow, and keep a fault for the diagnostic: TensorFlow loses it."""
        try:
            yield from records
        except RunError as error:
            self.failures.append(error.diagnostic)
            raise

    def check(self) -> None:
        """Check the files, as far as that is quick.

        Raises:
            RunError: A file is missing, or is not what the source reads.
        """
        return

    def where(self, index: int) -> Where:
        """Return the place of record `index` (from 0) for a message."""
        return Where(self.call.name, f"example {index + 1}", call=self.span)

    def where_in(self, index: int, name: str) -> Where:
        """Return the place of a tensor in record `index`.

        Args:
            index: The number of the record, from 0.
            name: The name of the tensor.
        """
        where = self.where(index)
        return evolve(where, place=", ".join(each for each in (where.place, self.words_for(name)) if each))

    def words_for(self, name: str) -> str:
        """Return what the tensor `name` is in a file, in words."""
        return f"tensor `{name}`"

    def fault(self, index: int, reason: str) -> Diagnostic:
        """Return the diagnostic about record `index`, which TensorFlow refused for `reason`.

        Args:
            index: The number of the record, from 0.
            reason: The message of TensorFlow.
        """
        return unexplained(self.where(index), reason=reason)

    def fault_of_all(self, reason: str) -> Diagnostic:
        """Return the diagnostic about a record of which the number is not known.

        Args:
            reason: The message of TensorFlow.
        """
        return unexplained(Where(self.call.name, call=self.span), reason=reason)


class FileSource(Source):
    """Examples in several files, which are read one after the other, and each of which can be read alone."""

    @abstractmethod
    def counts(self) -> tuple[int, ...]:
        """Return the number of records of each file; raises RunError if counting fails."""

    @abstractmethod
    def records(self, files: Sequence[int] | None = None) -> Any:
        """Return the raw records of the files with these numbers, by default of all files."""

    def count(self) -> int:
        """Return how many records there are in all."""
        return sum(self.counts())

    def place(self, index: int) -> tuple[int, int]:
        """Return the number of the file of record `index`, and the record's number in it."""
        counts = self.counts()
        for number, count in enumerate(counts[:-1]):
            if index < count:
                return number, index
            index -= count
        return len(counts) - 1, index
