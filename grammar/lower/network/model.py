"""The `model` block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dsl import ir, syntax
from dsl.errors import layers as tensor_errors
from dsl.errors import names, references, types
from dsl.schema import BLOCKS, signatures
from dsl.schema import types as kinds
from dsl.source import Span
from grammar.lower import blocks, values
from grammar.lower.context import BAD, Context, all_of
from grammar.lower.evaluate import described, evaluate, misplaced_value
from grammar.lower.network import flows, layers
from grammar.lower.network.operations import PREFIX, Tensors
from grammar.lower.values import typed

COUNTS = (2, 3)
"""How many tensors a loss or metric takes: target, prediction, and perhaps weights."""

CLASS_WEIGHT = "class_weight"
"""The argument of a loss or metric that says how much each class counts."""


def model(block: syntax.Block, context: Context) -> ir.Model | None:
    """Lower the `model` block; return None if it has errors."""
    blocks.check_label(block, BLOCKS["model"], context)
    lost = frozenset(name for item in block.items for name in blocks.lost_names(item))
    spans: dict[str, Span] = {}
    context = context.within(lost=context.lost | lost, bound=spans)
    tensors = Tensors(context, spans=spans, of_model=True)
    first: dict[str, Span] = {}
    body = layers.body_of(block, BLOCKS["model"], first, context)
    own = {name: item.value for name, item in body.own.items()}
    read = layers.read_bindings(
        layers.declare_bindings(body.bindings, tensors, first), tensors, in_layer=False
    )
    outputs = _outputs(body.inner["output"], tensors) if "output" in body.inner else ()
    metrics = _metrics(body.inner.get("metrics"), tensors)
    loss = _loss(own["loss"], tensors) if "loss" in own else ()
    penalty = None
    if "regularize" in own:
        regularizer = kinds.keras("regularizer", optional=True)
        penalty = typed(own["regularize"], regularizer, "`regularize`", context)
    output = flows.tensor(own["output"], tensors, what="`output`") if "output" in own else None
    if read is None or metrics is None or BAD in (loss, penalty, output, outputs) or block.label is None:
        return None
    return ir.Model(
        block.label,
        read,
        tuple(each for each in loss if isinstance(each, ir.LossTerm)),
        penalty,
        metrics,
        output,
        outputs,
        tuple(each for each in loss if isinstance(each, ir.TensorTerm)),
        span=block.header,
        spans={name: value.span for name, value in own.items()},
    )


# --- losses and metrics -----------------------------------------------------------------------------------


def _loss(written: syntax.Expr, tensors: Tensors) -> Any:
    terms: list[ir.LossTerm | ir.TensorTerm] = []
    fine = True
    for sign, part in _summands(written):
        term = _term(part, sign, tensors)
        if term is BAD:
            fine = False
        else:
            terms.append(term)
    return tuple(terms) if fine else BAD


def _summands(written: syntax.Expr) -> list[tuple[float, syntax.Expr]]:
    if isinstance(written, syntax.Chain) and written.rest[0][0] in "+-":
        parts = [*_summands(written.first)]
        for operator, operand in written.rest:
            parts.extend(
                (weight if operator == "+" else -weight, part) for weight, part in _summands(operand)
            )
        return parts
    return [(1.0, written)]


def _term(written: syntax.Expr, weight: float, tensors: Tensors) -> Any:
    if isinstance(written, syntax.Negative):
        return _term(written.operand, -weight, tensors)
    if _is_tensor(written):
        tensor = flows.tensor(written, tensors, what="a loss")
        return BAD if tensor is BAD else ir.TensorTerm(tensor, weight, span=written.span)
    if isinstance(written, syntax.Chain):
        return _weighted(written, weight, tensors)
    objective_ = objective(written, "loss", tensors)
    return BAD if objective_ is BAD else ir.LossTerm(objective_, weight, span=written.span)


def _is_tensor(written: syntax.Expr) -> bool:
    """Whether a term of the loss can only be a tensor: a name, an operation, or a product of these."""
    match written:
        case syntax.Path():
            return True
        case syntax.Call():
            return written.callee.name.startswith(PREFIX)
        case syntax.Indexed():
            return True
        case syntax.Negative():
            return _is_tensor(written.operand)
        case syntax.Chain():
            factors = (written.first, *(factor for _, factor in written.rest))
            return not any(isinstance(each, syntax.Flow) for each in factors) and any(
                map(_is_tensor, factors)
            )
    return False


def _weighted(written: syntax.Chain, weight: float, tensors: Tensors) -> Any:
    """Lower a product of numbers and one loss."""
    context = tensors.context
    found: syntax.Expr | None = None
    for operator, factor in (("*", written.first), *written.rest):
        if isinstance(factor, (syntax.Flow, syntax.Broken)) and found is None and operator == "*":
            found = factor
            continue
        value = evaluate(factor, context)
        if value is BAD:
            return BAD
        if isinstance(value, bool) or not isinstance(value, (int, float)) or (operator == "/" and value == 0):
            return context.refuse(types.no_result(factor.span, why="the weight of a loss is a number"))
        weight = weight * value if operator == "*" else weight / value
    if found is None:
        return context.refuse(types.loss_expected("loss", described(written), written.span))
    return _term(found, weight, tensors)


def objective(written: syntax.Expr, category: str, tensors: Tensors) -> Any:
    """Lower `[target, prediction] -> Loss()`, or the same with a metric."""
    context = tensors.context
    if isinstance(written, syntax.Broken):
        return BAD
    if not isinstance(written, syntax.Flow):
        return context.refuse(types.loss_expected(category, described(written), written.span))
    compared = _compared(written, category, tensors)
    step, weights = _class_weights(written.steps[-1], context)
    call = _objective_call(step, category, context)
    if BAD in (compared, call, weights):
        return BAD
    target, prediction, *more = compared
    return ir.Objective(
        target, prediction, call, more[0] if more else None, class_weights=weights, span=written.span
    )


def _class_weights(step: syntax.Expr, context: Context) -> tuple[syntax.Expr, Any]:
    """Return the call of a loss or metric without `class_weight`, and what that says."""
    if not isinstance(step, syntax.Call):
        return step, ()
    given = [each for each in step.arguments if each.name == CLASS_WEIGHT]
    if not given:
        return step, ()
    kept = tuple(each for each in step.arguments if each.name != CLASS_WEIGHT)
    rest = syntax.Call(step.callee, kept, step.given, span=step.span)
    first, *others = given
    if others:
        context.reports.add(
            references.repeated_argument(
                others[0].name_span or others[0].span,
                callee=step.callee.name,
                name=CLASS_WEIGHT,
                first=first.name_span or first.span,
            )
        )
        return rest, BAD
    what = f"`{CLASS_WEIGHT}` of `{step.callee.name}`"
    weights = typed(first.value, kinds.Type("list", item=kinds.number()), what, context)
    if weights == ():
        context.reports.add(tensor_errors.no_class_weights(first.value.span))
        return rest, BAD
    return rest, weights if weights is BAD else tuple(float(each) for each in weights)


def _compared(written: syntax.Flow, category: str, tensors: Tensors) -> Any:
    source = written.source
    if isinstance(source, syntax.Broken):
        return BAD
    if any(isinstance(step, syntax.Chain) for step in written.steps):
        return tensors.context.refuse(types.brackets_around_flows(category, written.steps[0].span))
    if len(written.steps) > 1:
        return tensors.context.refuse(types.steps_before_loss(written.steps[0].span, kind=category))
    if not isinstance(source, syntax.List) or len(source.items) not in COUNTS:
        if not (
            isinstance(source, syntax.List) and any(isinstance(item, syntax.Broken) for item in source.items)
        ):
            count = len(source.items) if isinstance(source, syntax.List) else 1
            tensors.context.reports.add(types.pair_expected(category, source.span, count))
        return BAD
    return all_of([flows.tensor(item, tensors, what=f"a {category}") for item in source.items])


def _objective_call(step: syntax.Expr, category: str, context: Context) -> Any:
    if isinstance(step, syntax.Path) and step.bare is not None and signatures.find(category, step.bare):
        return context.refuse(references.not_called(step.span, kind=category, name=step.bare))
    if isinstance(step, syntax.Chain):
        return BAD  # reported with the pair
    if isinstance(step, syntax.Path) and step.bare is not None:
        known = signatures.names(category)
        return context.refuse(references.unknown_function(category, step.bare, step.span, known))
    if not isinstance(step, syntax.Call):
        return misplaced_value(step, "this step", f"a {category}", context)
    if (
        category == "loss"
        and signatures.find("layer", step.callee.name)
        and not signatures.find("loss", step.callee.name)
    ):
        return context.refuse(
            references.other_kind(step.callee.span, kind="loss", name=step.callee.name, found="layer")
        )
    return values.called(step, kinds.keras(category), f"a {category}", context)


def _metrics(block: syntax.Block | None, tensors: Tensors) -> tuple[ir.Metric, ...] | None:
    metrics: list[Any] = []
    sample = "`name = [target, prediction] -> Metric()`"
    for item in _named_items(block, "metric", sample, tensors.context) if block is not None else ():
        read = objective(item.value, "metric", tensors)
        metrics.append(read if read is BAD else ir.Metric(item.name, read, span=item.span))
    return None if any(metric is BAD for metric in metrics) else tuple(metrics)


def _outputs(block: syntax.Block, tensors: Tensors) -> Any:
    outputs: list[Any] = []
    spans: dict[str, Span] = {}
    longer: dict[str, str] = {}  # names whose columns could have the names of outputs
    context = tensors.context
    for item in _named_items(block, "output", "`name = tensor`", context):
        begins = _possible_outputs(item.name)
        alike = next((name for name in begins if name in spans), None) or longer.get(item.name)
        for name in begins:
            longer.setdefault(name, item.name)
        if alike is not None:
            context.reports.add(tensor_errors.outputs_alike(item.name, alike, item.name_span, spans[alike]))
        spans[item.name] = item.name_span
        read = flows.tensor(item.value, tensors, what=f"`{item.name}`")
        bad = read is BAD or alike is not None
        outputs.append(BAD if bad else ir.NamedOutput(item.name, read, span=item.span))
    if not block.items:
        return context.refuse(tensor_errors.no_outputs(block.span))
    return BAD if any(each is BAD for each in outputs) else tuple(outputs)


def _possible_outputs(column: str) -> list[str]:
    """Return the names of outputs of which a column could have a name: `p_1` is that of column 1 of `p`."""
    found = []
    while (begin := re.fullmatch(r"(.+)_[0-9]+", column)) is not None:
        column = begin[1]
        found.append(column)
    return found


def _named_items(block: syntax.Block, kind: str, sample: str, context: Context) -> Iterator[syntax.Attribute]:
    """Yield the items `name = value` of a block; report those of another kind and those that come twice."""
    first: dict[str, Span] = {}
    for item in block.items:
        if isinstance(item, syntax.Attribute):
            if blocks.once(item.name, item.name_span, first, kind, context):
                yield item
        elif isinstance(item, syntax.Block) or not isinstance(item.value, syntax.Broken):
            context.reports.add(names.misplaced_entry(item.span, place=f"`{block.kind}`", takes=sample))
