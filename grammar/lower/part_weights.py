"""The block `weights` in `train`: files of weights from which parts of the model start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir, syntax
from dsl.errors import names
from dsl.schema import BLOCKS
from dsl.schema import types as kinds
from grammar.lower import blocks
from grammar.lower.context import BAD
from grammar.lower.expressions.values import typed

if TYPE_CHECKING:
    from grammar.lower.context import Context


def part_weights(train: syntax.Block, context: Context) -> tuple[ir.PartWeights, ...] | None:
    """Lower the rules of all blocks `weights` in a block `train`.

    Args:
        train: The block `train`.
        context: The context.

    Returns:
        The rules in their order, or None if there is an error.
    """
    found: list[ir.PartWeights | None] = []
    for block in syntax.blocks_in(train.items, "weights"):
        blocks.check_label(block, BLOCKS["weights"], context)
        found += [_rule(item, context) for item in block.items]
    rules = [each for each in found if each is not None]
    return tuple(rules) if len(rules) == len(found) else None


def _rule(item: syntax.Item, context: Context) -> ir.PartWeights | None:
    value = item.value if isinstance(item, syntax.Entry) else None
    if isinstance(value, syntax.Broken):
        return None
    if not isinstance(value, syntax.Flow) or len(value.steps) != 1:
        context.reports.add(names.misplaced_entry(item.span, place="`weights`", takes='`"glob" -> "file"`'))
        return None
    pattern = typed(value.source, kinds.string(filled=True), "the glob of a rule in `weights`", context)
    file = typed(value.steps[0], kinds.path(), "the file of a rule in `weights`", context)
    if pattern is BAD or file is BAD:
        return None
    return ir.PartWeights(pattern, file, span=value.span)
