"""Check that data files exist, and that CSV files have the columns that the spec names.

A spec is often checked on a machine that does not have its data. A missing file is therefore only a warning,
and nothing is reported if the folder that should hold it is missing too. A missing column of a CSV file is an
error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

from attrs import evolve

from dsl import ir
from dsl.diagnostics import Diagnostic, Severity
from dsl.errors import layers as state_errors
from dsl.errors import plan as plan_errors
from dsl.files.regular import is_glob, is_there, matches, open_regular
from dsl.ir.model import steps_in
from dsl.schema.data_functions import FILES, SOURCES
from dsl.schema.signatures import named_arguments
from dsl.source import Span
from dsl.suggest import nearest

HEADER = 1 << 20  # bytes within which a header ends
GZIP_MAGIC = b"\x1f\x8b"
SEPARATORS = ",;\t|"
"""What may separate the cells of a CSV file."""


def data_is_there(spec: ir.Spec) -> Iterator[Diagnostic]:
    """Report files that are missing, columns that CSV files lack, and training without data."""
    if (spec.train.steps or spec.train.epochs) and (spec.data is None or spec.data.train is None):
        span = spec.data.span if spec.data is not None else spec.train.span
        yield evolve(plan_errors.nothing_to_train_on(span, missing="`data.train`"), severity=Severity.WARNING)
    if not Path(spec.path).is_file():
        return  # a spec from standard input has no folder
    base = Path(spec.path).parent
    yield from _vocabularies(spec, base)
    if spec.data is None:
        return
    for split in (getattr(spec.data, name) for name in ir.SPLITS):
        if split is not None:
            try:
                yield from _source(split.source, base)
            except (OSError, ValueError):
                continue  # a run reports better what is wrong with such a file


def _vocabularies(spec: ir.Spec, base: Path) -> Iterator[Diagnostic]:
    """Report missing files of words."""
    bindings = [*spec.model.bindings, *(each for block in spec.layers for each in block.bindings)]
    for step in (step for each in bindings for step in steps_in(each.value)):
        path = named_arguments(step.call).get("vocabulary") if step.kind == "layer" else None
        if isinstance(path, str) and not is_there(base / path) and (base / path).parent.is_dir():
            span = step.call.kwarg_spans.get("vocabulary", step.call.span)
            fault = state_errors.unreadable_vocabulary(
                span, path=str(base / path), reason="there is no such file"
            )
            yield evolve(fault, severity=Severity.WARNING)


def _source(source: ir.Call, base: Path) -> Iterator[Diagnostic]:
    arguments, spans = _arguments(source)
    found: list[Path] = []
    for name in FILES[source.name]:
        value = arguments.get(name)
        for pattern in value if isinstance(value, tuple) else (value,):
            if not isinstance(pattern, str):
                continue
            paths = sorted(matches(base, pattern))
            found += paths
            if not paths and (base / pattern).parent.is_dir():
                yield _missing(source.name, base / pattern, spans.get(name, source.span))
    files = [each for each in found if each.is_file()]
    if source.name == "csv" and files and source.kwargs.get("header", True) is True:
        yield from _columns(source, files[0])


def _arguments(source: ir.Call) -> tuple[dict[str, ir.Value], dict[str, Span]]:
    """Return the arguments of a source by name, and their places in the spec."""
    names = next(
        ([each.name for each in known.positional] for known in SOURCES if known.name == source.name), []
    )
    values = dict(zip(names, source.args, strict=False)) | dict(source.kwargs)
    return values, dict(zip(names, source.arg_spans, strict=False)) | dict(source.kwarg_spans)


def _missing(source: str, path: Path, span: Span | None) -> Diagnostic:
    from dsl.errors import data as errors

    near = None if is_glob(path.name) else nearest(path.name, [each.name for each in path.parent.iterdir()])
    fault = errors.missing(errors.Where(str(path), call=span), nearest=near, folder=source == "images")
    return evolve(fault, severity=Severity.WARNING)


def _columns(source: ir.Call, path: Path) -> Iterator[Diagnostic]:
    """Report the columns that the header lacks. If the first line is no header, a run reports that."""
    header = _header(path)
    if len(header) < 2 or all(re.fullmatch(r"[-+.0-9eE]+", name) for name in header):  # noqa: PLR2004 no separators
        return
    for tensor, value in source.kwargs.items():
        if tensor in {"path", "header"}:
            continue
        for pattern in value if isinstance(value, tuple) else (value,):
            if isinstance(pattern, str) and not _matches(pattern, header):
                yield _no_column(path, pattern, header, source.kwarg_spans.get(tensor, source.span))


def _no_column(path: Path, pattern: str, header: list[str], span: Span | None) -> Diagnostic:
    from dsl.errors import data as errors

    where = errors.Where(str(path), "row 1", call=span)
    return errors.missing_field(where, kind="column", name=pattern, known=header)


def _matches(pattern: str, header: list[str]) -> bool:
    return pattern in header or (is_glob(pattern) and any(fnmatchcase(name, pattern) for name in header))


def _header(path: Path) -> list[str]:
    """Return the names in the first line of a file; raise OSError or ValueError if there is none."""
    with open_regular(path) as file:
        packed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        line = _unpacked(file) if packed else file.readline(HEADER)
    if not line.endswith(b"\n") or not line.strip():
        return []
    text = line.decode("utf-8-sig").rstrip("\r\n")
    separator = separator_of(text)
    names = [cell.strip() for cell in (_quoted(text, separator) if '"' in text else text.split(separator))]
    return names if all(map(str.isprintable, names)) else []  # a file of another kind


def separator_of(header: str) -> str:
    """Return what separates the names in a header: a comma, unless it has none outside of quotes."""
    plain = re.sub(r'"[^"]*"', "", header)
    return next((each for each in SEPARATORS if each in plain), ",")


def _quoted(text: str, separator: str) -> list[str]:
    import csv

    try:
        return next(csv.reader([text], delimiter=separator, strict=True))
    except csv.Error as fault:
        raise ValueError(str(fault)) from fault


def _unpacked(file: BinaryIO) -> bytes:
    import gzip  # imported here because most specs do not need it

    try:
        with gzip.open(file) as unpacked:
            return unpacked.readline(HEADER)
    except EOFError as fault:
        raise OSError(str(fault)) from fault
