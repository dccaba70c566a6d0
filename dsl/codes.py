"""The codes of all diagnostics: stable, never reused, one row each, sorted.

A code's name and number stand here alone; `tfdeploy/pages/TFDxxx.md` explains it. To add one, put a row where
its number belongs, write its page, and raise it with `name_of(code)`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

Stage: TypeAlias = Literal["check", "plan", "run", "tool"]


@frozen
class Code:
    """One kind of diagnostic; `stage` is the first that can raise it (`tool` where no spec is to blame)."""

    code: str
    name: str
    title: str
    stage: Stage = "check"


_ROWS = (
    # TFD1xx: reading. TFD19x: the file itself cannot be had, which ends a command with exit code 2.
    Code("TFD190", "missing-file", "a file is not there"),
    Code("TFD191", "unreadable-file", "a file cannot be read"),
    Code("TFD192", "not-utf8", "a file is not UTF-8 text"),
    Code("TFD193", "file-too-large", "a file is larger than a spec may be"),
    Code("TFD199", "file-system-error", "the operating system refused to read or write a file", "tool"),
    # TFD2xx: names and shape of the spec.
    # TFD3xx: types and units.
    # TFD4xx: references.
    # TFD5xx: the plan.
    Code("TFD501", "uneven-batch", "a global batch that the clones cannot share evenly", "plan"),
    Code("TFD502", "batch-list-length", "a list of batches that does not fit the number of clones", "plan"),
    Code("TFD503", "no-device", "a placement that names no device", "plan"),
    Code("TFD504", "device-not-present", "a declared device that the machine does not have", "run"),
    Code("TFD505", "not-supported-yet", "a part of the language that this version cannot compile", "plan"),
    Code("TFD506", "shape-mismatch", "a step that cannot take the shapes that reach it", "plan"),
    Code("TFD507", "layer-cannot-be-made", "arguments that Keras does not take", "plan"),
    Code("TFD508", "no-optimizer", "training without an optimizer", "plan"),
    Code("TFD509", "nothing-to-train-on", "training without data or without a length", "plan"),
    Code("TFD510", "no-gradient", "a loss that depends on no weight", "plan"),
    Code("TFD511", "rule-matches-nothing", "a placement rule whose glob matches nothing", "plan"),
    Code("TFD512", "stray-op", "an op that sits where no rule put it", "plan"),
    Code("TFD513", "group-too-large", "a group of more devices than there are", "plan"),
    Code("TFD514", "no-group-member", "a device that the groups of the clones do not have", "plan"),
    # TFD6xx: lint.
    # TFD7xx: running. TFD70x and TFD71x: data, with file, record and field; TFD72x: a spec and its data.
    Code("TFD701", "data-missing", "a data file or folder is not there", "run"),
    Code("TFD702", "data-unreadable", "a data file cannot be opened or is of another format", "run"),
    Code("TFD703", "data-empty", "data without a single example", "run"),
    Code("TFD704", "field-missing", "a column, array or feature that the data lacks", "run"),
    Code("TFD705", "row-length", "a row with too few or too many cells", "run"),
    Code("TFD706", "not-a-number", "a cell that is not a number", "run"),
    Code("TFD707", "value-out-of-range", "a value that its dtype or the classes do not allow", "run"),
    Code("TFD708", "quoting", "quotes that do not pair up", "run"),
    Code("TFD709", "bad-header", "a first row that cannot serve as header", "run"),
    Code("TFD710", "data-damaged", "a file that was cut off or altered", "run"),
    Code("TFD711", "record-shape", "a record whose size differs from what is wanted", "run"),
    Code("TFD712", "record-kind", "an array or feature of a type that cannot be used", "run"),
    Code("TFD713", "unreadable-image", "an image that cannot be decoded", "run"),
    Code("TFD714", "python-data", "a Python function that does not give examples", "run"),
    Code("TFD715", "unreadable-record", "a record that TensorFlow refuses", "run"),
    Code("TFD720", "unknown-tensor", "a transform of a tensor that the examples lack", "run"),
    Code("TFD721", "input-without-data", "an input of the model for which there is no data", "run"),
    Code("TFD722", "data-does-not-fit", "data of another dtype or shape than the model's input", "run"),
    Code("TFD723", "transform-does-not-apply", "a transform that cannot be applied to its tensor", "run"),
    Code("TFD724", "bad-data-argument", "an argument of a source or transform without a meaning", "run"),
    # TFD9xx: the tool's own fault.
    Code("TFD901", "internal-fault", "a fault of tfdeploy itself", "tool"),
)

CODES: dict[str, Code] = {row.code: row for row in _ROWS}


def name_of(code: str) -> str:
    """Return the kebab-case name of `code`; a KeyError for a code that is not in the table."""
    return CODES[code].name


def is_file_fault(code: str) -> bool:
    """Whether `code` says that a file could not be had, so that the command ends with 2 and not with 1."""
    return code.startswith("TFD19")
