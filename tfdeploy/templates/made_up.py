"""Made-up data for templates that read files."""

from __future__ import annotations

from random import Random

FEATURES = 4
KINDS = 3
SPREAD = 0.7
"""The standard deviation of a feature around the centre of its kind; centres are within 2 of zero."""


def table(rows: int, seed: int) -> str:
    """Return a CSV table whose rows belong to one of three kinds, each a cloud of points around a centre.

    The centres are the same for every seed, so that what is learnt from one table holds for another. A kind
    cannot always be told from the features, because the clouds overlap.

    Args:
        rows: The number of rows. Each kind has about a third of them.
        seed: Which table to make.

    Returns:
        The text of the table, with the columns `feature_0` to `feature_3` and `kind` (0, 1 or 2).
    """
    places = Random("centres")  # noqa: S311  # numbers of a table, not secrets
    centres = [[places.uniform(-2, 2) for _ in range(FEATURES)] for _ in range(KINDS)]
    draws = Random(seed)  # noqa: S311  # as above
    lines = [",".join([*(f"feature_{each}" for each in range(FEATURES)), "kind"])]
    for _ in range(rows):
        kind = draws.randrange(KINDS)
        features = (draws.gauss(centre, SPREAD) for centre in centres[kind])
        lines.append(",".join([*(f"{each:.3f}" for each in features), str(kind)]))
    return "".join(f"{line}\n" for line in lines)
