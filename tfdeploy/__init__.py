"""Declare a model, devices, clones and placement in a text file; train it as a TensorFlow multi-tower graph.

Users import `tfdeploy` alone. Each name is loaded when it is first used, so that TensorFlow is not started
before it is needed.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what checks types takes it for true; importing `typing` takes longer than all else

if TYPE_CHECKING:
    from typing import Any

    __version__: str

    from compiler.graph.session_options import session_config
    from dsl.diagnostics import Diagnostic, RunError, SpecError
    from tfdeploy.api import SpecWarning, compile, evaluate, export, load, predict, run  # noqa: A004
    from tfdeploy.looking import diff, expand, forecast, map_placement, plan, read_map, to_html, why
    from tfdeploy.onramp.convert import from_keras
    from tfdeploy.suggesting.suggester import suggest

_HOMES = {
    "Diagnostic": "dsl.diagnostics",
    "RunError": "dsl.diagnostics",
    "SpecError": "dsl.diagnostics",
    "SpecWarning": "tfdeploy.api",
    "compile": "tfdeploy.api",
    "diff": "tfdeploy.looking",
    "evaluate": "tfdeploy.api",
    "expand": "tfdeploy.looking",
    "export": "tfdeploy.api",
    "forecast": "tfdeploy.looking",
    "from_keras": "tfdeploy.onramp.convert",
    "load": "tfdeploy.api",
    "map_placement": "tfdeploy.looking",
    "plan": "tfdeploy.looking",
    "predict": "tfdeploy.api",
    "read_map": "tfdeploy.looking",
    "run": "tfdeploy.api",
    "session_config": "compiler.graph.session_options",
    "suggest": "tfdeploy.suggesting.suggester",
    "to_html": "tfdeploy.looking",
    "why": "tfdeploy.looking",
}

__all__ = [
    "Diagnostic",
    "RunError",
    "SpecError",
    "SpecWarning",
    "compile",
    "diff",
    "evaluate",
    "expand",
    "export",
    "forecast",
    "from_keras",
    "load",
    "map_placement",
    "plan",
    "predict",
    "read_map",
    "run",
    "session_config",
    "suggest",
    "to_html",
    "why",
]


def __getattr__(name: str) -> Any:
    """Import the public name `name` from its module. The version is written in `pyproject.toml` alone."""
    if name == "__version__":
        from importlib.metadata import version

        return version("tfdeploy")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "__version__"})
