"""The IR: a whole spec as frozen records, after names are resolved, constants folded and defaults filled in.

Every record carries the span it came from; spans do not take part in equality, so two specs that mean the
same are equal. `block.span_of("attribute")` is where a value was written, or the block where it is a default.
"""

from dsl.ir.base import Arithmetic, Block, Call, Node, Parameter, Value
from dsl.ir.data import Data, Split
from dsl.ir.model import (
    Binding,
    Expr,
    Flow,
    Group,
    Input,
    LayerBlock,
    LayerParameter,
    LossTerm,
    Metric,
    Model,
    Objective,
    Ref,
    SharedLayer,
    Step,
)
from dsl.ir.place import (
    Balanced,
    Clones,
    Condition,
    DevicePattern,
    Devices,
    DeviceSet,
    Expect,
    GroupMember,
    Groups,
    Job,
    Place,
    Replicated,
    RoundRobin,
    Rule,
    Selector,
    Target,
)
from dsl.ir.spec import Spec
from dsl.ir.training import Every, Train, Update

__all__ = [
    "Arithmetic",
    "Balanced",
    "Binding",
    "Block",
    "Call",
    "Clones",
    "Condition",
    "Data",
    "DevicePattern",
    "DeviceSet",
    "Devices",
    "Every",
    "Expect",
    "Expr",
    "Flow",
    "Group",
    "GroupMember",
    "Groups",
    "Input",
    "Job",
    "LayerBlock",
    "LayerParameter",
    "LossTerm",
    "Metric",
    "Model",
    "Node",
    "Objective",
    "Parameter",
    "Place",
    "Ref",
    "Replicated",
    "RoundRobin",
    "Rule",
    "Selector",
    "SharedLayer",
    "Spec",
    "Split",
    "Step",
    "Target",
    "Train",
    "Update",
    "Value",
]
