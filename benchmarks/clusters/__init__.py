"""Training on clusters of this machine: `python -m benchmarks.clusters`, and the memory of servers."""
