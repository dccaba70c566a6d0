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

    `own_process` says that the process is there for this run alone, so that a second signal may end it at
    once. `profile` is how many steps are profiled, for each of the two kinds of profile. `membership` says
    what the process is of a cluster; None if all is in this process.
    """

    emulate: bool = False
    resume: Resume = "auto"
    verbose: bool = False
    own_process: bool = False
    profile: int = 0
    reporter: Reporter = field(factory=Reporter)
    membership: Membership | None = None
