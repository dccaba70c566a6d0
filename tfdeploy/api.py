"""The Python face of the tool."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compiler.graph.compiled import CompiledGraph
    from dsl.ir import Spec
    from tfdeploy.runtime.reporting import Reporter
    from tfdeploy.runtime.result import Result


def load(
    path: str | os.PathLike[str], overrides: Mapping[str, Any] | None = None, *, allow_python: bool = False
) -> Spec:
    """Read the spec at `path`, with the attributes named in `overrides` replaced, as `--set` does.

    Raises SpecError, whose `diagnostics` say what is wrong and where.
    """
    from grammar import load as read

    pairs = tuple((name, _text(value)) for name, value in (overrides or {}).items())
    return read(os.fspath(path), pairs, allow_python=allow_python)


def compile(spec: Spec, *, emulate: bool = False, verbose: bool = False) -> CompiledGraph:  # noqa: A001
    """Return the multi-tower graph of a spec; nothing is run and no data is read.

    With `emulate` every declared device is a logical CPU of this process. Raises SpecError.
    """
    from tfdeploy.runtime.plans import graph_of, plan_of

    return graph_of(plan_of(spec, emulate=emulate, verbose=verbose), verbose=verbose)


def run(
    spec: Spec,
    *,
    emulate: bool = False,
    resume: Literal["auto", "never", "must"] = "auto",
    verbose: bool = False,
    reporter: Reporter | None = None,
) -> Result:
    """Train a spec in its run directory and return what `result.json` holds.

    Goes on from the newest checkpoint where there is one, unless `resume` is `never`; `must` asks for one.
    `reporter` is told what happens; without one nothing is printed. Raises SpecError, RunError, and
    KeyboardInterrupt or SystemExit where a signal ends the run, after a checkpoint.
    """
    from tfdeploy.runtime import start
    from tfdeploy.runtime.options import RunOptions
    from tfdeploy.runtime.reporting import Reporter

    chosen = reporter if reporter is not None else Reporter()
    return start.run(spec, RunOptions(emulate, resume, verbose, reporter=chosen))


def _text(value: Any) -> str:
    """Return `value` as the language writes it; a string is taken as it would be after `--set PATH=`."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_quoted(item) if isinstance(item, str) else _text(item) for item in value)}]"
    return repr(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
