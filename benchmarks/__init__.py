"""Benchmarks of whole training runs against peers in the same run: `make bench`."""
