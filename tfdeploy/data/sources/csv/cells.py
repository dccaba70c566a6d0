"""Whether a cell holds a number of a dtype, as TensorFlow's CSV decoder sees it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from dsl.errors import data as errors
from tfdeploy.data.options import BOUNDS, FLOATS

if TYPE_CHECKING:
    from dsl.diagnostics import Diagnostic
    from dsl.errors.data import Where

LARGEST = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028235e38, "float64": math.inf}
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def fault(where: Where, cell: str, dtype: str) -> Diagnostic | None:
    """Return the diagnostic about a cell that cannot be read as `dtype`; None if it can.

    Args:
        where: The place of the cell.
        cell: Its text.
        dtype: The name of the dtype.
    """
    text = cell.strip(" \t")
    if dtype == "string":
        return None
    if dtype in FLOATS:
        return _float_fault(where, text, dtype)
    if not _WHOLE.fullmatch(text):
        return errors.not_a_number(where, cell, "a whole number" if dtype != "bool" else "0 or 1")
    low, high = BOUNDS[dtype]
    if not low <= int(text) <= high:
        return errors.out_of_range(
            where, value=text, reason=f"is outside {dtype}, which holds {low} to {high}"
        )
    return None


def _float_fault(where: Where, text: str, dtype: str) -> Diagnostic | None:
    if _NOT_FINITE.fullmatch(text):
        return errors.not_a_number(where, text, "a finite number")
    if not _DECIMAL.fullmatch(text):
        return errors.not_a_number(where, text, "a number")
    if abs(float(text)) > LARGEST[dtype] or math.isinf(float(text)):
        return errors.out_of_range(where, value=text, reason=f"is too large for {dtype}")
    return None
