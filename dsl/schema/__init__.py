"""The language as tables, in the notation of `notation.py`; checks, completions and the reference follow.

To add an attribute, add a row to `blocks.py` and a field of the same name to the record in `dsl/ir/`. To add
a source or a transform, add a row to `data_functions.py`; to add an aggregation, add one to `functions.py`.
"""

from dsl.schema.blocks import BLOCKS, ROOT, ROOT_ATTRIBUTES, Attribute, Block
from dsl.schema.functions import FUNCTIONS, arguments_of, function, function_names
from dsl.schema.placement import COMPARISONS, MEASURES, SELECTORS, TARGETS, measure, selector, target
from dsl.schema.types import Argument, Function, Type

VERSION = 1
"""The version of the language that this tool reads."""
