"""Functions of the user's own Python, looked up beside the spec first and then among installed packages.

The folder of a spec is at the end of `sys.path`, and only while a function is looked up. A file beside a spec
never replaces a module of this package or of one that it uses.
"""

from __future__ import annotations

import importlib
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, nullcontext
from functools import partialmethod, wraps
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.tensorflow_private import without_op_callbacks
from compiler.graph.kept_tensors import without_tensors
from dsl.diagnostics import Diagnostic, RunError, SpecError
from dsl.errors import data as errors
from dsl.errors import layers
from dsl.errors.data import Where
from dsl.errors.plan import layer_cannot_be_made
from dsl.source import Excerpt, Span
from dsl.suggest import nearest

_ROOT = Path(__file__).resolve().parents[2]
OWN = tuple(f"{_ROOT / package}{os.sep}" for package in ("dsl", "grammar", "compiler", "tfdeploy"))
"""The folders of this package's own code."""


BESIDE_SPEC = "_beside_spec_"
"""How the names of modules that are beside a spec begin in `sys.modules`."""

KERAS_SETTINGS = ("floatx", "epsilon", "image_data_format", "dtype_policy")
"""What Keras has for the process and layers get that say nothing else."""

_LIBRARIES = ("site-packages", "dist-packages")
_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_FRAMEWORKS = {"keras", "tensorflow"}
_Function: TypeAlias = "Callable[..., Any] | None"
_modules: set[str] = set()  # files and folders of the installed modules that specs have named


def load_function(
    path: str, base: Path, call: Span | None, *, of_model: bool = False, lasting: bool = False
) -> Callable[..., Any]:
    """Return a function of the user's.

    Args:
        path: The function, written `module:function`.
        of_model: Whether the function is for the model, and not for data.
        lasting: Whether what its module does to the process lasts, such as settings of Keras.

    Raises:
        RunError: There is no such function, or its module fails.
        SpecError: The module of a function for the model fails.
    """
    module_name, _, name = path.partition(":")
    where = Where(path, call=call)
    if not module_name or not name:
        reason, advice = "this does not name a function", "write `module:function`"
        raise RunError(errors.python_function(where, reason=reason, advice=advice))
    try:
        with _last_on_path(base), nullcontext() if lasting else _apart(), without_exit():
            module = _module(module_name, base)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module_name:
            reason = f"there is no module `{module_name}`, neither beside the spec nor installed"
            raise RunError(errors.python_function(where, reason=reason)) from error
        if of_model:
            raise SpecError([diagnosed(error, path, call)]) from error
        raise RunError(failure(error, where)) from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if function is None or not callable(function):
        near = nearest(name, [each for each in vars(module) if not each.startswith("_")])
        reason, near_by = f"its module has no function `{name}`", f"there is `{near}`" if near else None
        raise RunError(errors.python_function(where, reason=reason, advice=near_by))
    return function


@frozen
class UserCode:
    """Code of the user's that a step of the model runs."""

    step: str  # the step or object, as messages name it
    span: Span | None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Turn every exception inside into a diagnostic at the step. Raises SpecError."""
        try:
            with comparing_elements(), without_exit():
                yield
        except (SpecError, RunError, MemoryError):
            raise
        except Exception as error:
            raise SpecError([diagnosed(error, self.step, self.span)]) from error

    def guarded(
        self, function: _Function, what: str = "", shape: Callable[[Any], Any] | None = None
    ) -> _Function:
        """Return the function with its exceptions as diagnostics at the step; None stays None.

        Args:
            what: What the function is to the step, if its result must have a shape.
            shape: Returns that shape from the first argument.
        """
        if function is None:
            return None

        @wraps(function, assigned=(), updated=())  # `inspect.unwrap` finds the function itself
        def run(*args: Any, **kwargs: Any) -> Any:
            with self.running():
                found = function(*args, **kwargs)
                if shape is not None:
                    self._require_shape(what, found, shape(args[0]))
                return found

        return run

    def _require_shape(self, what: str, found: Any, shape: Any) -> None:
        own, wanted = tf.TensorShape(getattr(found, "shape", ())), tf.TensorShape(shape)
        if not own.is_compatible_with(wanted):
            reason = f"its {what} gives {list(own)} in place of {list(wanted)}"
            raise SpecError([layer_cannot_be_made(self.span, step=self.step, reason=reason)])


@contextmanager
def comparing_elements() -> Iterator[None]:
    """Let `a == b` compare the elements of tensors, as it does in eager code and in `tf.function`.

    In a plain graph, TensorFlow compares whether they are the same object, so that `x == 0` would be False.
    """
    before = tf.Tensor.__eq__, tf.Tensor.__ne__
    tf.Tensor.__eq__ = partialmethod(_compared, tf.raw_ops.Equal, of_none=False)
    tf.Tensor.__ne__ = partialmethod(_compared, tf.raw_ops.NotEqual, of_none=True)
    try:
        yield
    finally:
        tf.Tensor.__eq__, tf.Tensor.__ne__ = before


def _compared(one: tf.Tensor, compare: Callable[..., Any], other: Any, *, of_none: bool) -> Any:
    if other is None:
        return of_none
    other = tf.convert_to_tensor(other, one.dtype)
    return compare(x=one, y=other, incompatible_shape_error=False)


def diagnosed(error: Exception, step: str, span: Span | None) -> Diagnostic:
    """Return the diagnostic of an exception that code of the user's raised for the model."""
    text = plain_message(error)
    kind = type(error).__name__
    place = raised_at(error)
    shown = None
    if place is not None:
        shown = f"{_short(place[0])}:{place[1]}: `{linecache.getline(*place).strip()}`"
    return layers.raised(span, step=step, reason=f"{kind}: {text}" if text else kind, place=shown)


def plain_message(error: Exception) -> str:
    """Return the message of an exception on one line, without what Keras writes around it."""
    plain = re.sub(r"\x1b\[\d*m", "", str(error))
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith("Exception encountered when calling")]
    return own[0] if own else ""


def _short(file: str) -> str:
    """Return the path of a file, relative to the working directory if it is inside."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


def _module(name: str, base: Path) -> ModuleType:
    """Import a module. One beside the spec has a name of its own in `sys.modules`, so it hides no other."""
    file = base / (name.replace(".", "/") + ".py")
    if not file.is_file():
        new = name not in sys.modules
        module = importlib.import_module(name)
        _remember(name, module)
        return _without_tensors(module) if new else module
    own = f"{BESIDE_SPEC}{blake2b(os.fsencode(file.resolve()), digest_size=8).hexdigest()}"
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
    return _without_tensors(module)


@contextmanager
def _apart() -> Iterator[None]:
    """Undo what a module does to the process, as scripts do when they begin: it would change the step."""
    with chdir("."), kept_keras(), without_op_callbacks():
        yield


@contextmanager
def kept_keras() -> Iterator[None]:
    """Restore the settings that Keras has for the process."""
    before = {name: getattr(keras.config, name)() for name in KERAS_SETTINGS}
    try:
        yield
    finally:
        set_keras(before)


def set_keras(settings: Mapping[str, Any]) -> None:
    """Change settings that Keras has for the process, by their names."""
    for name, value in settings.items():
        getattr(keras.config, f"set_{name}")(value)


def _without_tensors(module: ModuleType) -> ModuleType:
    """Return a module with arrays in place of what it has made in the graph in which it was imported."""
    if not tf.executing_eagerly():
        without_tensors(vars(module), tf.compat.v1.get_default_graph())
    return module


def _remember(name: str, module: ModuleType) -> None:
    """Count an installed module, or the package that it is in, as code of the user's."""
    package = name.partition(".")[0]
    if package in _FRAMEWORKS:
        return
    whole = sys.modules.get(package, module)
    folders = [f"{each}{os.sep}" for each in getattr(whole, "__path__", ())]
    _modules.update(folders or ([module.__file__] if module.__file__ else []))


@contextmanager
def _last_on_path(folder: Path) -> Iterator[None]:
    before = list(sys.path)
    sys.path.append(str(folder.absolute()))
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def without_exit() -> Iterator[None]:
    """Raise a RuntimeError if code of the user's ends the process, which would seem to have done its work."""
    try:
        yield
    except SystemExit as stop:
        if type(stop) is not SystemExit:  # a signal has ended it
            raise
        raise RuntimeError(f"it calls `sys.exit({stop.code!r})`").with_traceback(stop.__traceback__) from stop


def failure(error: Exception, where: Where) -> Diagnostic:
    """Return the diagnostic of an exception of the user's code.

    It points at the innermost line of that code.
    """
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    place = raised_at(error)
    if place is None:
        return errors.python_function(where, reason=f"raises {said}")
    file, number = place
    line = linecache.getline(file, number).rstrip("\n")
    start = len(line) - len(line.lstrip())
    span = Span(Excerpt(file, line, number=number), start, len(line))
    inner = Where(where.path, where.place, span, where.call)
    return errors.python_function(inner, reason=f"raises {said}")


def raised_at(error: BaseException) -> tuple[str, int] | None:
    """Return file and line of the innermost code of the user's that an exception passed through, if any."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return error.filename, error.lineno
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    return next((each for each in reversed(frames) if _is_users(each[0])), None)


def _is_users(file: str) -> bool:
    """Whether a file is neither of this package, nor of an installed library, nor of Python itself."""
    if any(file.startswith(each) for each in _modules):
        return True
    is_library = file.startswith((*OWN, _STANDARD_LIBRARY)) or any(each in file for each in _LIBRARIES)
    return not is_library and Path(file).is_file()
