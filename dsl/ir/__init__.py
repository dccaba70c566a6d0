"""The intermediate representation (IR): a spec as frozen records, with names resolved and defaults filled in.

Every record has the span that it was read from. Spans do not take part in equality, so two specs with the
same meaning are equal. `block.span_of("attribute")` is the place of a value, or of the block if the value is
a default.
"""

from dsl.ir.base import Arithmetic, Block, Call, Node, Parameter, Value
from dsl.ir.model import (
    Binding,
    Expr,
    Flow,
    Group,
    Index,
    Input,
    LayerBlock,
    LayerParameter,
    LossTerm,
    Metric,
    Model,
    NamedOutput,
    Objective,
    Operand,
    Operation,
    Ref,
    Rest,
    SharedLayer,
    Slice,
    Step,
    TensorTerm,
    Weight,
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
    OverClones,
    Place,
    Replicated,
    RoundRobin,
    Rule,
    Selector,
    Sharded,
    Target,
)
from dsl.ir.spec import (
    SPLITS,
    BatchNorm,
    Data,
    Every,
    Mode,
    OptimizerRule,
    PartWeights,
    PerClone,
    PipelineSchedule,
    Precision,
    Reduce,
    Replication,
    Spec,
    Split,
    SplitName,
    Summaries,
    Train,
    Update,
)
