"""The intermediate representation (IR): a spec as frozen records, with names resolved and defaults filled in.

Every record has the span that it was read from. Spans do not take part in equality, so two specs with the
same meaning are equal. `block.span_of("attribute")` is the place of a value, or of the block if the value is
a default.
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
