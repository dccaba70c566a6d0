"""The options of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import field, frozen

from tfdeploy.runtime.show.reporting import Reporter

if TYPE_CHECKING:
    from tfdeploy.runtime.membership.addresses import Membership

Resume = Literal["auto", "never", "must"]


@frozen
class RunOptions:
    """The options of a run.

    Attributes:
        emulate: Whether every declared device is a logical CPU of this process.
        resume: Whether the run continues from a checkpoint: if there is one, never, or in any case.
        verbose: Whether TensorFlow's own messages are shown.
        own_process: Whether the process exists for this run alone, so that a second signal may end it.
        profile: How many steps are profiled for each of the two kinds of profile; 0 for none.
        reporter: Is called with the progress of the run.
        membership: The part of this process in a cluster; None if the run needs this process alone.
    """

    emulate: bool = False
    resume: Resume = "auto"
    verbose: bool = False
    own_process: bool = False
    profile: int = 0
    reporter: Reporter = field(factory=Reporter)
    membership: Membership | None = None
