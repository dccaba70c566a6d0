"""The contenders, one file each.

`start(problem, towers)` builds, makes the first step and returns what can make more. Contenders that build a
graph have `build(problem, towers)` too, which makes no step.
"""

CONTENDERS = ("ours", "tutorial", "mirrored", "fit", "single")
"""Those of one machine, whose devices are logical CPUs of one process."""
