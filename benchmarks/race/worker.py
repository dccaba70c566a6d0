"""One contender in a process of its own: `python -m benchmarks.race.worker CONTENDER MODEL TOWERS [build]`.

It writes to standard output, in lines of JSON, what it has measured: first the times of building and of the
first step, then the time of each turn, for which it reads a number of steps from standard input, and at the
end its peak memory. With `build` it stops before the first step.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Measure the contender that the command line names."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    contender, model, towers, *more = sys.argv[1:]
    from attrs import asdict

    from benchmarks.figures import peak_memory
    from benchmarks.models import PROBLEMS

    module: Any = importlib.import_module(f"benchmarks.contenders.{contender}")
    if more == ["build"]:
        _say(asdict(module.build(PROBLEMS[model], int(towers))))
    else:
        running = module.start(PROBLEMS[model], int(towers))
        _say({each: getattr(running, each) for each in ("build", "first_step", "graph_ops")})
        for line in sys.stdin:
            steps, began = int(line), time.process_time()
            seconds = running.advance(steps)
            _say({"rate": steps / seconds, "cpu": (time.process_time() - began) / steps})
    _say({"peak_memory": peak_memory()})
    sys.stdout.flush()
    os._exit(0)  # sessions and strategies take their time to end


def _say(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
