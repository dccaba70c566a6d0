"""The contenders, one file each: `measure(problem, towers, steps)` builds, trains and returns the figures."""

CONTENDERS = ("ours", "tutorial", "mirrored", "fit", "single")
