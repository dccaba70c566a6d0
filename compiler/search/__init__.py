"""The search for a placement with the lowest load of the busiest device.

It knows nothing of TensorFlow, of specs or of files. `workload.py` has its input, `search.py` its entry, and
`docs/placement-search.md` what it reaches on published graphs.
"""
