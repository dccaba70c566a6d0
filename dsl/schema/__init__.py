"""The language as tables, in the notation of `notation.py`; checks, completions and the reference follow."""

from dsl.schema.blocks import ALTERNATIVES, BLOCKS, ROOT, ROOT_ATTRIBUTES, Attribute, Block
from dsl.schema.functions import FUNCTIONS, arguments_of, function, function_names
from dsl.schema.placement import COMPARISONS, MEASURES, SELECTORS, TARGETS, measure, selector, target
from dsl.schema.types import Argument, Function, Type

VERSION = 1
"""The version of the language that this tool reads."""
