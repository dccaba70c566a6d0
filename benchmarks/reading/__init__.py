"""Reading files, against pipelines that are written by hand: `python -m benchmarks.reading`."""
