"""What is known of a spec beside its text: shapes, and what its rules placed in the last run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from attrs import frozen

from compiler.figures import plural, size
from compiler.kinds.kind_map import AnyMap
from compiler.kinds.reading import read_map
from compiler.model.elaborate import elaborate
from compiler.model.shapes import Shape, known_shapes
from dsl import ir
from dsl.diagnostics import SpecError
from dsl.files.typed_json import BadRecord
from dsl.source import Span
from tfdeploy.lsp.documents import Document, absolute
from tfdeploy.runtime.records.directory import RunDirectory


def shapes_of(spec: ir.Spec) -> Mapping[str, Shape]:
    """Return the shapes of the tensors of a model by their names, without the batch axis.

    A tensor whose shape is not certain, or that a `layer` block makes, is left out.
    """
    try:
        graph = elaborate(spec)
    except SpecError:
        return {}
    values = known_shapes(graph).values
    made = {_place(call.span): values[call.values[0]] for call in graph.calls if call.span is not None}
    shapes = {each.name: each.shape for each in graph.inputs}
    for binding in spec.model.bindings:
        if isinstance(binding.value, ir.Flow) and not binding.others:
            shape = made.get(_place(binding.value.steps[-1].span))
            if shape is not None:
                shapes[binding.name] = shape
    return shapes


def _place(span: Span | None) -> tuple[str, int, int] | None:
    return None if span is None else (span.source.name, span.start, span.end)


def written(shape: Shape) -> str:
    """Return a shape as the language writes it."""
    return f"[{', '.join(map(str, shape))}]"


MOST = 4
"""How many devices are named; of further ones the number is."""


@frozen
class Placed:
    """What one rule has placed."""

    variables: int
    bytes: Mapping[str, int]  # their size on each device, by its name in specs
    ops: Mapping[str, int]  # how many ops on each device, by its name in specs

    @property
    def short(self) -> str:
        """What is shown at the end of the rule."""
        if self.bytes:
            return _listed(f"{size(bytes_)} on {ref}" for ref, bytes_ in self.bytes.items())
        return _listed(f"{count} ops on {ref}" for ref, count in self.ops.items())

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is shown about the rule."""
        said = []
        if self.variables:
            sizes = _listed(f"{size(bytes_)} on {ref}" for ref, bytes_ in self.bytes.items())
            said.append(f"In the last run it placed {self.variables} variables: {sizes}.")
        if self.ops:
            ops = _listed(f"{count} on {ref}" for ref, count in self.ops.items())
            said.append(f"In the last run it placed {sum(self.ops.values())} ops: {ops}.")
        return tuple(said)


def _listed(parts: Iterable[str]) -> str:
    found = list(parts)
    more = len(found) - MOST
    return ", ".join(found[:MOST]) + (f" and {plural(more, 'more device')}" if more > 0 else "")


def placed_by_rules(document: Document, spec: ir.Spec, folders: Iterable[Path]) -> Mapping[int, Placed]:
    """Return what each rule has placed, by its line from 1; nothing if there is no map of this text."""
    own = sha256(document.source.text.encode("utf-8", "surrogatepass")).hexdigest()
    placement = _map(document, RunDirectory.of(spec).placement, folders)
    if placement is None or placement.spec.sha256 != own:
        return {}
    refs = {each.device: each.ref for each in placement.devices}
    sizes: dict[int, Counter[str]] = {}
    numbers: Counter[int] = Counter()
    ops: dict[int, Counter[str]] = {}
    for variable in placement.variables:
        line = variable.rule.line
        if line is not None and _is_file(variable.rule.file, document):
            numbers[line] += 1
            for device in variable.copies or (variable.device,):
                sizes.setdefault(line, Counter())[refs.get(device, device)] += variable.bytes
    for op in placement.counted():
        rule = op.op.rule
        if rule.line is not None and _is_file(rule.file, document):
            ops.setdefault(rule.line, Counter()).update(dict.fromkeys(op.devices, op.each))
    return {
        line: Placed(numbers[line], dict(sizes.get(line, {})), dict(ops.get(line, {})))
        for line in {*sizes, *ops}
    }


def variables_of(document: Document, spec: ir.Spec, folders: Iterable[Path]) -> tuple[str, ...]:
    """Return the names of the variables in the map of the last run of a spec; nothing if there is none."""
    placement = _map(document, RunDirectory.of(spec).placement, folders)
    return () if placement is None else tuple(each.name for each in placement.variables_like)


def _is_file(file: str | None, document: Document) -> bool:
    return file is not None and Path(file).name == Path(document.path).name


def _map(document: Document, path: Path, folders: Iterable[Path]) -> AnyMap | None:
    for folder in (*folders, Path(absolute(document.path)).parent):
        try:
            return read_map(folder / path)
        except (OSError, BadRecord):
            continue
    return None
