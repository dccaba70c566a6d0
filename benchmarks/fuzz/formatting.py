"""Format and show many mutants of specs: python benchmarks/fuzz/formatting.py [COUNT] [SEED] [PART/PARTS].

Every mutant that can be formatted must format to itself a second time and mean the same afterwards; every one
without errors must give a spec, when shown, that shows itself. Prints what did not hold and a count; exit
code 1 if anything did not. `1/2` and `2/2` share the mutants between two processes.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import grammar
from benchmarks.fuzz.reading import SPECS
from dsl.diagnostics import SpecError
from dsl.ir import Spec
from dsl.source import Source
from grammar.format import format_text
from grammar.unparse import unparse
from tests.grammar.broken_specs import mutants


def main(count: int = 2000, seed: int = 1, part: str = "1/1") -> int:
    """Try `count` mutants made from `seed`, or one part of them."""
    first, parts = map(int, part.split("/"))
    specs = [path.read_text() for path in SPECS]
    seen: Counter[str] = Counter()
    for text in islice(mutants(specs, count, seed), first - 1, None, parts):
        try:
            outcome = tried(text)
        except Exception:  # noqa: BLE001 the crash is what we look for
            outcome = "crashed"
            traceback.print_exc()
        seen[outcome] += 1
        if outcome not in {"refused", "formatted", "shown"}:
            print(f"{outcome}:\n{text}\n{'=' * 80}", flush=True)
    print(f"part {part} of {count} mutants of seed {seed}: {dict(sorted(seen.items()))}")
    return int(bool(set(seen) - {"refused", "formatted", "shown"}))


def tried(text: str) -> str:
    """Return how far a mutant got (`refused`, `formatted` or `shown`), or which promise was broken for it."""
    try:
        once = format_text(Source("mutant.tfdeploy", text))
    except SpecError:
        return "refused"
    if format_text(Source("mutant.tfdeploy", once)) != once:
        return "formats differently the second time"
    spec = meaning(text)
    if spec != meaning(once):
        return "means something else once formatted"
    if spec is None:
        return "formatted"
    shown = unparse(spec)
    again = meaning(shown)
    if again is None or unparse(again) != shown:
        return "shows differently the second time"
    return "shown"


def meaning(text: str) -> Spec | None:
    """Return the spec that a text describes, or None if the text has errors."""
    return grammar.read("mutant.tfdeploy", text=text, allow_python=True).spec


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(*map(int, arguments[:2]), *arguments[2:]))
