"""Objects of Python modules that a spec names with `python("module:function")`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dsl.diagnostics import SpecError
from dsl.errors import plan as errors
from dsl.source import Span


def load_object(path: str, base: str, span: Span | None) -> Callable[..., Any]:
    """Return the function `module:function`; modules beside the spec (in `base`) come before installed ones.

    Raises SpecError where there is no such module or function, or the module fails to import.
    """
    module_name, _, name = path.partition(":")
    try:
        with _first_on_path(base):
            module = importlib.import_module(module_name)
        found: Callable[..., Any] = getattr(module, name)
    except Exception as fault:  # the module is the user's own code and may raise anything
        reason = f"{type(fault).__name__}: {fault}"
        raise SpecError([errors.layer_cannot_be_made(path, reason, span)]) from fault
    return found


@contextmanager
def _first_on_path(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
