"""A graph in which the name of an empty name scope can be used again.

Keras opens a layer's scope twice, to build it and to call it. In a plain graph the first scope, which is
empty, uses the name, and the ops of a layer `query` inside another are called `query_1/...`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf


class NamingGraph(tf.Graph):  # type: ignore[misc]  # TensorFlow has no types
    """A `tf.Graph` in which the names of empty scopes are free again."""

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Open a name scope, as `tf.Graph.name_scope` does."""
        wanted = f"{self._name_stack}/{name}".lstrip("/").lower() if name else ""
        before, ops = self._names_in_use.get(wanted), self.num_operations()
        with super().name_scope(name) as scope:
            yield scope
        if wanted and not wanted.endswith("/") and self.num_operations() == ops:
            self._names_in_use.pop(scope.rstrip("/").lower(), None)
            if before is not None:
                self._names_in_use[wanted] = before
