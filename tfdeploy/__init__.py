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
    "compiler.graph.session_options": ("session_config",),
    "dsl.diagnostics": ("Diagnostic", "RunError", "SpecError"),
    "tfdeploy.api": ("SpecWarning", "compile", "evaluate", "export", "load", "predict", "run"),
    "tfdeploy.looking": ("diff", "expand", "forecast", "map_placement", "plan", "read_map", "to_html", "why"),
    "tfdeploy.onramp.convert": ("from_keras",),
    "tfdeploy.suggesting.suggester": ("suggest",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

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
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, "__version__"})
