"""Explains why ops and variables are where they are, in a graph or in a map by kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.mapping.explanation import Explained

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from tfdeploy.runtime.many_clones import MapByKinds


class NothingNamedError(LookupError):
    """A name is that of no op and no variable.

    Attributes:
        nearest: The nearest names.
    """

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        """Make the message.

        Args:
            name: The name.
            nearest: The nearest names.
        """
        super().__init__(f"{name!r} names no op or variable; the nearest names are {', '.join(nearest)}")
        self.nearest = nearest


def explain_graph(compiled: CompiledGraph, name: str) -> Explained:
    """Return what explains the places of things in a graph.

    Args:
        compiled: The graph.
        name: A name, a glob, or a message of TensorFlow that names ops.

    Raises:
        NothingNamedError: If it names nothing.
    """
    from compiler.step.read.why import explain_placement, suggest_names

    found = explain_placement(compiled.step, name)
    if not found:
        raise NothingNamedError(name, suggest_names(compiled.step, name))
    return Explained(found, found)


def explain_by_kinds(many: MapByKinds, name: str) -> Explained:
    """Return what explains the places of things of many clones that are alike.

    Args:
        many: The map of the clones.
        name: A name, a glob, or a message of TensorFlow that names ops.

    Raises:
        NothingNamedError: If it names nothing.
        NotAlikeError: If only the graph of all clones shows the reasons.
    """
    from compiler.kinds.why import explain_many, suggest_among_many

    alike = many.time.work.alike if many.time is not None else {}
    timed_task = next((task for _, task in alike), None)
    found = explain_many(many.reasons, many.placement, name, timed_task)
    if not found.found:
        raise NothingNamedError(name, suggest_among_many(many.placement, name))
    return found
