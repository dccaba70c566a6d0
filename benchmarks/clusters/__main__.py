"""Race on clusters of this machine, and print the rates: `python -m benchmarks.clusters`."""

from __future__ import annotations

import sys

from benchmarks.clusters.rates import main

main(*sys.argv[1:])
