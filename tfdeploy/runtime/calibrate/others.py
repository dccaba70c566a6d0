"""How much of the machine other work has while this process measures."""

from __future__ import annotations

import os
import time
from pathlib import Path

from attrs import Factory, frozen

STAT = Path("/proc/stat")
"""What the system tells of its processors."""

BUSY = 0.1
"""The part of the processors from which on other work matters."""


def busy_processors() -> float | None:
    """Return the seconds for which all processors have been busy so far; None if the system does not tell.

    They include those that a virtual machine has waited for its host.
    """
    try:
        words = STAT.read_text(encoding="ascii").partition("\n")[0].split()
    except OSError:
        return None
    user, nice, system, _, _, interrupts, soft, stolen = map(int, words[1:9])
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def own_processors() -> float:
    """Return the processor seconds of this process, and of those that it has started and that have ended."""
    return sum(os.times()[:4])


@frozen
class OtherWork:
    """Measures what other processes do from its creation on.

    Attributes:
        began: The time of its creation, in seconds.
        busy: The seconds for which processors had been busy by then; None if that is not known.
        own: The processor seconds of this process by then.
    """

    began: float = Factory(time.perf_counter)
    busy: float | None = Factory(busy_processors)
    own: float = Factory(own_processors)

    def share(self) -> float | None:
        """Return the part of the processors that other work has had, from 0 to 1; None if it is not known."""
        busy = busy_processors()
        passed = (time.perf_counter() - self.began) * (os.cpu_count() or 1)
        if busy is None or self.busy is None or not passed:
            return None
        others = busy - self.busy - (own_processors() - self.own)
        return min(1.0, max(0.0, others / passed))
