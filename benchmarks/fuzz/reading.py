"""Read many broken specs and count what comes of it: python benchmarks/fuzz/reading.py [COUNT] [SEED].

Prints how many mutants were read with no error, one, two, three or more, the slowest, and every crash. Exit
code 1 if something crashed, more than three errors came of one mutation, or less than three quarters gave
exactly one.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections import Counter
from difflib import unified_diff
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import grammar
from dsl.formats.render import render
from tests.grammar.broken_specs import mutants

ROOT = Path(__file__).parents[2]
SPECS = [
    *sorted((ROOT / "examples").glob("*.tfdeploy")),
    *sorted((ROOT / "tests/grammar/specs").glob("*.tfdeploy")),
]
MOST = 3
SHARE = 0.75


def main(count: int, seed: int, verbose: str = "") -> int:
    """Read `count` mutants made from `seed`; `verbose` is a number of errors whose mutants are shown."""
    specs = [path.read_text() for path in SPECS]
    errors: Counter[int] = Counter()
    slowest, crashes = 0.0, 0
    for text in mutants(specs, count, seed):
        start = time.process_time()
        try:
            reading = grammar.read("mutant.tfdeploy", text=text)
            shown = render(reading.diagnostics)
        except Exception:  # noqa: BLE001 the crash is what we look for
            crashes += 1
            print(*_changed(text, specs), traceback.format_exc(), sep="\n")
            continue
        slowest = max(slowest, time.process_time() - start)
        number = sum(each.is_error for each in reading.diagnostics)
        errors[number] += 1
        if verbose and number >= int(verbose):
            print(*_changed(text, specs), shown, "=" * 80, sep="\n")
    broken = sum(times for number, times in errors.items() if number)
    single = errors[1] / max(broken, 1)
    print(f"{count} mutants, {broken} broken; errors each: {dict(sorted(errors.items()))}")
    print(f"exactly one: {single:.1%}; crashes: {crashes}; slowest: {slowest * 1e3:.0f} ms")
    return int(crashes > 0 or max(errors) > MOST or single < SHARE)


def _changed(text: str, specs: list[str]) -> list[str]:
    """Return the lines in which a mutant differs from the spec that it was made from, as a diff."""
    diffs = (list(unified_diff(spec.splitlines(), text.splitlines(), n=0, lineterm="")) for spec in specs)
    return min(diffs, key=len)[2:]


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3] or (2000, 1)), *sys.argv[3:]))
