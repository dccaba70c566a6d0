"""Traced towers that the tests of a process share, as the cases of `verify` do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import asdict
from tensorflow.python.framework.config import is_op_determinism_enabled

from compiler.graph.tower.traces import Traced, Traces
from compiler.plan import Plan

MOST = 20
"""The towers of so many kinds are kept, those that were made last."""


class SharedTraces:
    """What `compile_graph` calls for traces: it gets those of the graphs before, if it may have them."""

    def __init__(self) -> None:
        self._known: dict[bool, list[Any]] = {False: [], True: []}  # by whether ops are deterministic
        self._shared = True

    def __call__(self, base: str) -> Traces:
        """Return traces that may be known already."""
        return _Kept(base, self._known[is_op_determinism_enabled()]) if self._shared else Traces(base)

    @contextmanager
    def not_shared(self) -> Iterator[None]:
        """Trace each graph by itself meanwhile."""
        before, self._shared = self._shared, False
        try:
            yield
        finally:
            self._shared = before


class _Kept(Traces):
    """Traces that leave out what changes between tests, and not within a command: the user's own code.

    If Keras refuses a model, everything is forgotten, so that nothing half made is used again.
    """

    def of(self, plan: Plan, seed: int) -> Traced:
        if "python" in str(asdict(plan.model)):
            return Traces(self.base).of(plan, seed)
        try:
            del self._known[:-MOST]
            return super().of(plan, seed)
        except BaseException:
            self._known.clear()
            raise
