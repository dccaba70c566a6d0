"""Numbers that come out of a session, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable


def named(values: Iterable[tuple[str, Any]]) -> dict[str, float]:
    """Return plain floats by name; a metric that gives several has an entry `name[i]` for each."""
    found: dict[str, float] = {}
    for name, value in values:
        flat = np.asarray(value, np.float64)
        if flat.ndim == 0:
            found[name] = float(flat)
        else:
            found |= {f"{name}[{at}]": float(each) for at, each in enumerate(flat.ravel())}
    return found
