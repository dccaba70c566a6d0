"""The weights from which training starts, of all files that a spec names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.graph.storage.part_files import read_parts
from compiler.graph.storage.pretrained import read_pretrained
from compiler.graph.storage.weight_files import read_weights
from compiler.model.graph import Start

if TYPE_CHECKING:
    import numpy as np

    from compiler.graph.compiled import CompiledGraph


def starting_weights(
    compiled: CompiledGraph, base: Path, say: Callable[[str], None]
) -> dict[str, np.ndarray]:
    """Return the values of all weights that start from files, by their names in `CompiledGraph.weights`.

    What `train` says holds over what a step of the model says, and its block `weights` over its attribute.

    Args:
        compiled: The graph.
        base: The folder of the spec.
        say: Called with a line of text before a file is downloaded, and about what is not used of a file.

    Raises:
        RunError: A file cannot be downloaded or read, or has other weights or shapes.
    """
    plan, train = compiled.plan, compiled.plan.spec.train
    found = read_pretrained(compiled, str(base), say)
    found |= read_parts(compiled, plan.model.starts, say, base=str(base))
    rules = [Start(each.pattern, each.file, each.span) for each in train.part_weights]
    ruled = read_parts(compiled, rules, say, base=str(base))
    if train.weights is not None:
        path, span = base / train.weights, train.span_of("weights")
        found |= read_weights(compiled, path, span, base=str(base), elsewhere={*found, *ruled})
    return found | ruled
