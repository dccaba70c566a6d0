"""A session whose errors are diagnostics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from tfdeploy.runtime.session.closing import close_session
from tfdeploy.runtime.session.faults import located

if TYPE_CHECKING:
    from collections.abc import Callable

    from compiler.graph.compiled import CompiledGraph

COMBINATION = "a combination"  # what is being done, in messages


@frozen
class LocatedSession:
    """A session of a graph that is verified.

    Attributes:
        session: The session of TensorFlow.
        compiled: The graph.
        lost: Returns whether a task of the cluster was lost; None if the session is of this process alone.
    """

    session: Any = field(repr=False)
    compiled: CompiledGraph = field(repr=False)
    lost: Callable[[], bool] | None = field(default=None, repr=False)

    def run(self, fetches: Any, feed: Any = None) -> Any:
        """Run a part of the graph.

        Args:
            fetches: What `Session.run` takes: ops and tensors, also in lists, tuples and dicts.
            feed: The values that are fed, or None.

        Returns:
            The values of the fetches.

        Raises:
            RunError: TensorFlow refuses something.
            OpError: A task was lost.
        """
        with located(COMBINATION, self.compiled, lost=self.lost):
            return self.session.run(fetches, feed)

    def close(self) -> None:
        """Close the session, also if its server is gone."""
        close_session(self.session)
