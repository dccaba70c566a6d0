"""One measurement in a process of its own: `python -m benchmarks.worker CONTENDER MODEL TOWERS STEPS`."""

from __future__ import annotations

import importlib
import json
import os
import sys


def main() -> None:
    """Measure what the command line names; the last line of standard output is the figures."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    contender, model, towers, steps = sys.argv[1:5]
    from benchmarks.models import PROBLEMS

    measure = importlib.import_module(f"benchmarks.contenders.{contender}").measure
    figures = measure(PROBLEMS[model], int(towers), int(steps))
    print(json.dumps(figures.to_dict()))


if __name__ == "__main__":
    main()
