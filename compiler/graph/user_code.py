"""Functions of the user's own Python, looked up beside the spec first and then among installed packages.

The folder of a spec is at the end of `sys.path`, and only while a function is looked up. A file beside a spec
never replaces a module of this package or of one that it uses.
"""

from __future__ import annotations

import importlib
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dsl.diagnostics import RunError
from dsl.errors.running import running_data as errors
from dsl.errors.running.running_data import Excerpt, Where
from dsl.source import Span
from dsl.suggest import nearest

if TYPE_CHECKING:
    from dsl.diagnostics import Diagnostic


_ROOT = Path(__file__).resolve().parents[2]
OWN = tuple(f"{_ROOT / package}{os.sep}" for package in ("dsl", "grammar", "compiler", "tfdeploy"))
"""The folders of this package's own code."""


def load_function(path: str, base: Path, call: Span | None) -> Callable[..., Any]:
    """Return a function of the user's.

    Args:
        path: The function, written `module:function`.
        base: The folder of the spec.
        call: The place of the call in the spec.

    Raises:
        RunError: There is no such function, or its module fails.
    """
    module_name, _, name = path.partition(":")
    where = Where(path, call=call)
    if not module_name or not name:
        raise RunError(
            errors.python_function(where, "this does not name a function", advice="write `module:function`")
        )
    try:
        with _last_on_path(base):
            module = _module(module_name, base)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise RunError(failure(error, where)) from error
        reason = f"there is no module `{module_name}`, neither beside the spec nor installed"
        raise RunError(errors.python_function(where, reason)) from error
    except Exception as error:
        raise RunError(failure(error, where)) from error
    found = getattr(module, name, None)
    if not callable(found):
        near = nearest(name, [each for each in vars(module) if not each.startswith("_")])
        advice = f"there is `{near}`" if near else None
        raise RunError(errors.python_function(where, f"its module has no function `{name}`", advice=advice))
    function: Callable[..., Any] = found
    return function


def _module(name: str, base: Path) -> ModuleType:
    """Import a module. One beside the spec has a name of its own in `sys.modules`, so it hides no other."""
    file = base / (name.replace(".", "/") + ".py")
    if not file.is_file():
        return importlib.import_module(name)
    own = f"_beside_spec_{blake2b(str(file.resolve()).encode(), digest_size=8).hexdigest()}"
    if own in sys.modules:
        return sys.modules[own]
    spec = spec_from_file_location(own, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[own] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[own]
        raise
    return module


@contextmanager
def _last_on_path(folder: Path) -> Iterator[None]:
    before = list(sys.path)
    sys.path.append(str(folder.absolute()))
    try:
        yield
    finally:
        sys.path[:] = before


def failure(error: Exception, where: Where) -> Diagnostic:
    """Return the diagnostic of an exception of the user's code.

    It points at the innermost line of that code.

    Args:
        error: The exception.
        where: The function, and the place of its call.
    """
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    place = _raised_at(error)
    if place is None:
        return errors.python_function(where, f"raises {said}")
    file, number = place
    line = linecache.getline(file, number).rstrip("\n")
    start = len(line) - len(line.lstrip())
    span = Span(Excerpt(file, line, number=number), start, len(line))
    inner = Where(where.path, where.place, span, where.call)
    return errors.python_function(inner, f"raises {said}")


def _raised_at(error: Exception) -> tuple[str, int] | None:
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return error.filename, error.lineno
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    users = [
        each
        for each in frames
        if Path(each[0]).is_file() and not each[0].startswith(OWN) and "site-packages" not in each[0]
    ]
    own = [each for each in users if not each[0].startswith(str(Path(importlib.__file__).parent))]
    return own[-1] if own else None
