"""Make update rules from calls of the spec, such as `Adam(learning_rate = ...)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import keras
import tensorflow as tf

from compiler.compatibility import JOINING
from compiler.graph.adapters.keras_private import rate_of
from compiler.graph.kept_tensors import discarded_graph, made_apart, without_tensors
from compiler.graph.optimizers.base import Optimizer
from compiler.graph.optimizers.groups import Group
from compiler.graph.optimizers.keras_rule import KerasRule
from compiler.graph.optimizers.table import OPTIMIZERS
from compiler.graph.optimizers.update_trace import UnsupportedError, UpdateTrace
from compiler.graph.tower.network.network import first_sentence, make
from compiler.graph.user_code import failure, load_function
from dsl import ir
from dsl.diagnostics import RunError, SpecError
from dsl.errors import layers, plan, references
from dsl.errors.data import Where
from dsl.instead import ELSEWHERE
from dsl.schema import signatures
from dsl.source import Span

T = TypeVar("T")

EXCLUDED = "exclude_from_weight_decay"
"""The argument of every optimizer that lists globs of weights which do not decay."""

LAZY = "lazy"
"""The argument of an optimizer that may leave rows without a gradient as they are."""

_UNUSED = "ema_momentum"  # has a default, which counts only if there are averages
_OF_ALL_WEIGHTS = ("apply", "apply_gradients", "_backend_apply_gradients")


def make_groups(update: ir.Update, base: str = ".") -> tuple[Group, ...]:
    """Return the groups of weights that `update` names, each with its update rule."""
    found = []
    for number, each in enumerate(update.optimizers):
        optimizer = make_optimizer(each.optimizer, base, group=number)
        excluded = each.optimizer.kwargs.get(EXCLUDED) or ()
        assert isinstance(excluded, tuple)
        globs = tuple(str(glob) for glob in excluded)
        found.append(Group(each, optimizer, globs, each.optimizer.kwarg_spans.get(EXCLUDED)))
    return tuple(found)


def make_optimizer(call: ir.Call, base: str = ".", *, group: int = 0) -> Optimizer:
    """Return the update rule for a call of the spec."""
    if call.name == "python":
        return _own_optimizer(call, base, group)
    entry = OPTIMIZERS[call.name]
    arguments = _arguments(call)
    rate = _learning_rate(call, arguments.pop("learning_rate", None), base)
    arguments.pop(EXCLUDED, None)
    lazy = entry.lazy if arguments.pop(LAZY, False) else None
    arguments = {**entry.defaults, **arguments}
    settings = _settings(call, entry.keras_class, arguments)
    traced: dict[str, Any] = {
        "label": call.name,
        "make": lambda: entry.keras_class(learning_rate=rate, **arguments),
        "kind_of": lambda weight: _refused_by(lambda: entry.kind_of(settings, weight), call),
        "joins": lambda weight: (
            call.name in JOINING or _refused_by(lambda: entry.joins(settings, weight), call)
        ),
        "tracing": lambda run: _refused_by(run, call),
    }
    rule = lazy or entry.rule(settings)
    if issubclass(rule, KerasRule):
        return rule(settings, rate, group=group, **traced)
    in_16_bits = None if lazy or rule.IN_16_BITS else KerasRule(settings, rate, group=group, **traced)
    return rule(settings, rate, group=group, in_16_bits=in_16_bits)


def _arguments(call: ir.Call) -> dict[str, Any]:
    """Return the arguments by name, with whole numbers as floats if Keras requires floats."""
    signature = signatures.find("optimizer", call.name)
    assert signature is not None
    names = [each.name for each in signature.positional]
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    found: dict[str, Any] = {}
    for name, value in given.items():
        argument = signature.argument(name)
        if argument is None:
            span = call.kwarg_spans.get(name, call.span)
            raise SpecError([references.unknown_argument(call.name, name, span, None, names)])
        found[name] = float(value) if argument.takes_numbers and isinstance(value, int) else value
    return found


def _settings(call: ir.Call, maker: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    with tf.Graph().as_default():  # Keras makes variables for its step count, which are not used
        return _refused_by(lambda: maker(**arguments), call)


def _learning_rate(call: ir.Call, rate: Any, base: str) -> Any:
    """Return the rate as a number or as a Keras schedule; it is Keras's default if the call has none."""
    if isinstance(rate, ir.Call):
        return _own_schedule(rate, base) if rate.name == "python" else _schedule_of_keras(rate)
    if rate is not None:
        return rate
    signature = signatures.find("optimizer", call.name)
    argument = signature.argument("learning_rate") if signature is not None else None
    return argument.default if argument is not None else None


def _schedule_of_keras(call: ir.Call) -> Any:
    """Return a schedule of Keras, which refuses some of its arguments only when it is called."""
    made = make(call, "schedule")
    with discarded_graph():
        _refused_by(lambda: made(tf.constant(0, tf.int64)), call)
    return made


def _refused_by(run: Callable[[], T], call: ir.Call) -> T:
    """Return what `run` returns, and report what one of Keras's optimizers refuses in it."""
    try:
        return run()
    except (TypeError, ValueError, re.error, UnsupportedError, tf.errors.InvalidArgumentError) as fault:
        raise SpecError(
            [plan.layer_cannot_be_made(call.span, step=call.name, reason=first_sentence(fault))]
        ) from fault


# --- the user's own ---------------------------------------------------------------------------------------


def _own_optimizer(call: ir.Call, base: str, group: int) -> Optimizer:
    """Return the rule of the optimizer that a function of the user's makes."""
    function = made_apart(lambda: _own_function(call, base))

    def made() -> Any:
        optimizer = function()
        _require_usable(optimizer, call)
        return optimizer

    with discarded_graph() as apart:
        settings = without_tensors(made(), apart)
        rate = rate_of(settings)
        if callable(rate):
            scheduled = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
            rate = _guarded(rate, call, of_step=scheduled)
        else:
            number = tf.get_static_value(rate.value.initial_value)
            rate = None if number is None else float(number)

    def traced(run: Callable[[], UpdateTrace]) -> UpdateTrace:
        with _running(call):
            return run()

    return KerasRule(
        settings,
        rate,
        group=group,
        label=type(settings).__name__,
        make=made,
        kind_of=lambda weight: weight.name,
        tracing=traced,
    )


def _own_function(call: ir.Call, base: str) -> Callable[[], Any]:
    """Return the call of a function of the user's with the arguments of the spec."""
    function = load_function(str(call.args[0]), Path(base), call.span)
    arguments = {name: _plain(value, call) for name, value in call.kwargs.items() if name != EXCLUDED}

    def run() -> Any:
        with _running(call):
            return function(**arguments)

    return run


def _plain(value: Any, call: ir.Call) -> Any:
    """Return a value of the spec as Python has it; calls may only make schedules."""
    if isinstance(value, ir.Call):
        if signatures.find("schedule", value.name) is None:
            reason = f"an argument of it may be a schedule, and `{value.name}` is none"
            raise _unusable(call, reason, span=value.span)
        return make(value, "schedule")
    return [_plain(each, call) for each in value] if isinstance(value, tuple) else value


def _require_usable(optimizer: Any, call: ir.Call) -> None:
    """Raise SpecError if a function did not return an optimizer whose update can be traced."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        reason = f"it returned {type(optimizer).__name__}, not a Keras optimizer"
        raise _unusable(call, reason)
    given = [each for each in ELSEWHERE if each != _UNUSED and getattr(optimizer, each, None)]
    if given:
        advice = f"write `{ELSEWHERE[given[0]]}` in the block `update`"
        raise _unusable(call, f"it sets `{given[0]}`", advice)
    own = [each for each in _OF_ALL_WEIGHTS if _is_own(type(optimizer), each)]
    if own:
        reason = f"`{type(optimizer).__name__}` has an `{own[0]}` of its own, which sees all weights at once"
        raise _unusable(call, reason, "write its arithmetic in `update_step`, which sees one weight")


def _unusable(
    call: ir.Call, reason: str, advice: str | None = None, *, span: Span | None = None
) -> SpecError:
    """Return the error that something of the user's, at its call or at another place, cannot be used."""
    path = str(call.args[0])
    return SpecError([layers.unusable(span or call.span, path=path, reason=reason, advice=advice)])


def _is_own(kind: type, name: str) -> bool:
    """Whether a class has a method that is not the one of all of Keras's optimizers."""
    return getattr(kind, name) is not getattr(keras.optimizers.Optimizer, name)


@contextmanager
def _running(call: ir.Call) -> Iterator[None]:
    """Report what the user's code raises inside at its line, and what it does that is not supported."""
    try:
        yield
    except (SpecError, RunError):
        raise
    except UnsupportedError as fault:
        raise _unusable(call, str(fault)) from fault
    except Exception as fault:
        raise RunError(failure(fault, Where(str(call.args[0]), call=call.span))) from fault


def _own_schedule(call: ir.Call, base: str) -> Any:
    """Return the schedule that a function of the user's makes."""

    def schedule() -> Any:
        return _own_function(call, base)()

    made = made_apart(schedule)
    if not isinstance(made, keras.optimizers.schedules.LearningRateSchedule):
        reason = f"it returned {type(made).__name__}, not a Keras schedule"
        raise _unusable(call, reason)
    return _guarded(made, call)


def _guarded(rate: Callable[..., Any], call: ir.Call, *, of_step: bool = True) -> Any:
    """Return a learning rate as a function of the step, with faults at the line of the user's code."""

    def run(step: Any) -> Any:
        with _running(call):
            return rate(step) if of_step else rate()

    return run
