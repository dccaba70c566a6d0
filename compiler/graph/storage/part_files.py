"""Read weights for a part of a model from a file that Keras has written for the part, or for a larger model.

The arrays of the part are found in the file by the names of their layers. A file of the whole model has them
under their full names. A file of the part alone has names that begin below the part. Arrays that are not of
the part are not read but named, so a file may have more, such as the last layers of another model.

A model inside the model (`python(...)`, `applications.*`) is also found by its structure, as Keras does it,
if the file has that model and nothing else. Names that Keras has chosen do not matter then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from compiler.graph.storage.weight_files import (
    Keys,
    Layout,
    beyond,
    faults_of,
    layout_of,
    open_arrays,
    values_of,
)
from compiler.model.graph import LayerNode, Start
from dsl.diagnostics import RunError
from dsl.errors import layers as errors
from dsl.errors.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from compiler.graph.compiled import CompiledGraph


def read_parts(
    compiled: CompiledGraph, starts: Sequence[Start], say: Callable[[str], None], *, base: str
) -> dict[str, np.ndarray]:
    """Return the values of the weights of parts, by their names in `CompiledGraph.weights`.

    Args:
        compiled: The graph.
        starts: The parts and their files. A later one holds over an earlier one.
        say: Called with a line of text about what each file has beyond its parts.
        base: The folder of the spec.

    Raises:
        RunError: A file cannot be read, or lacks a weight of its part, or has it in another shape.
    """
    if not starts:
        return {}
    layout = layout_of(compiled, base)
    found: dict[str, np.ndarray] = {}
    left: dict[str, list[str]] = {}
    for start in starts:
        values, unread = _read(compiled, layout, start, Path(base) / start.file)
        found |= values
        left[start.file] = [each for each in left.get(start.file, unread) if each in unread]
    for file, unread in left.items():
        if unread:
            named = "; ".join(first_of(unread, errors.MOST_FAULTS))
            say(f"`{file}` has more weights, which are not used: {named}")
    return found


def _read(
    compiled: CompiledGraph, layout: Layout, start: Start, path: Path
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the values of the weights of a part, and what its file has beyond them."""
    part = _Part.of(compiled, layout, start.pattern)
    with open_arrays(path, start.span) as arrays:
        structure = part.structure()
        places = _places(structure or {})
        if structure and places <= arrays.by_path.keys() and not beyond(arrays.by_path, places):
            ways = [(structure, arrays.by_path)]
        else:
            ways = [(part.keys(below), arrays.by_key) for below in range(part.depth + 1)]
        faults = [sorted(faults_of(compiled, wanted, found)) for wanted, found in ways]
        for (wanted, found), wrong in zip(ways, faults, strict=True):
            if not wrong:
                return values_of(compiled, wanted, found), beyond(found, _places(wanted))
    fewest = min(faults, key=len)
    raise RunError(errors.part_does_not_fit(start.span, path=str(path), pattern=start.pattern, faults=fewest))


def _places(wanted: Mapping[str, Keys]) -> set[str]:
    return {each for keys in wanted.values() for each in keys}


@frozen
class _Part:
    """The weights of a part.

    Attributes:
        layout: Where a file of the whole model has its weights.
        nodes: The layer of each weight of the part.
    """

    layout: Layout
    nodes: Mapping[str, LayerNode]

    @classmethod
    def of(cls, compiled: CompiledGraph, layout: Layout, pattern: str) -> _Part:
        """Return the part of all weights that match a glob."""
        nodes = {
            name: node
            for node in compiled.plan.model.layers
            for name in layout.keys
            if name.startswith(f"{node.path}/") and fnmatchcase(name, pattern)
        }
        return cls(layout, nodes)

    @property
    def depth(self) -> int:
        """The number of names at the beginning of their paths that all layers of the part share."""
        paths = [node.path.split("/") for node in self.nodes.values()]
        shared = takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
        return sum(1 for _ in shared)

    def structure(self) -> dict[str, Keys] | None:
        """Return the paths of each weight in a file of the part alone, if the part is one model of Keras."""
        node, *others = {each.path: each for each in self.nodes.values()}.values()
        if others or node.kind not in {"python", "application"}:
            return None
        return {name: tuple(each.split("/", 2)[2] for each in self.layout.paths[name]) for name in self.nodes}

    def keys(self, below: int) -> dict[str, Keys]:
        """Return the keys of each weight without the first `below` names of the path of its layer."""
        found = {}
        for name, node in self.nodes.items():
            start = "_".join(node.path.split("/")[below:])
            keys = (each.removeprefix(node.keras_name) for each in self.layout.keys[name])
            found[name] = tuple((start + each).removeprefix("/") for each in keys)
        return found
