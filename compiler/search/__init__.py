"""The search for a placement with the lowest load of the busiest device, and for what to compute again.

It depends neither on TensorFlow nor on specs or files. `problem.py` has its input, `search.py` its entry,
and `docs/placement-search.md` what it reaches on published graphs. `segments.py` is about a chain of stages.
"""
