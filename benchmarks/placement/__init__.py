"""The search for placements on published graphs.

It is run as `python -m benchmarks.placement INPUT.json --out SPLIT.json`.
"""
