"""The functions of the language, in a table for each use, such as sources, transforms and aggregations."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from attrs import evolve

from dsl.errors.wording import article
from dsl.ir import Call
from dsl.schema import signatures
from dsl.schema import types as kinds
from dsl.schema.data_functions import FEATURES, LENGTHS, SOURCES, TRANSFORMS
from dsl.schema.types import (
    ANY,
    Argument,
    Function,
    Type,
    boolean,
    duration,
    either,
    integer,
    keyword,
    listing,
    needs,
    number,
    size,
    string,
    takes,
)

AGGREGATIONS = (
    Function("add_n", doc="all gradients of a variable are summed on one device"),
    Function("tree", doc="pairs of clones are summed, level by level"),
    Function(
        "hierarchical",
        (takes("size", integer(low=1, optional=True), None, "devices in a group; default: those of a task"),),
        doc="gradients are summed in each group of devices, and then between the groups",
    ),
    Function("ring", doc="all-reduce in a ring: every device passes chunks to the next one"),
    Function(
        "shuffle",
        (
            takes(
                "shards", integer(low=1, optional=True), None, "how many parts; default: one for each clone"
            ),
        ),
        doc="every gradient is split into parts that are summed on different devices",
    ),
    Function("collective", doc="TensorFlow's CollectiveReduce"),
)

COMPRESSIONS = (
    Function(
        "bfloat16", doc="gradients are sent with 16 bits: the range of float32, and 8 bits of precision"
    ),
    Function("float16", doc="gradients are sent with 16 bits: 11 bits of precision, and 65,504 at most"),
    Function(
        "power_sgd",
        (takes("rank", integer(1, 1024), 4, "columns of the two matrices that are sent in place of one"),),
        doc="two thin matrices are sent in place of each large one; what they lack is added in the next step",
    ),
)

_NORM = (needs("x", number(0, open=True), "the bound"),)
CLIPS = (
    Function("global_norm", _NORM, doc="scales all gradients if their common norm is larger than the bound"),
    Function("norm", _NORM, doc="scales each gradient whose own norm is larger than the bound"),
    Function("value", _NORM, doc="limits each element to plus and minus the bound"),
)

AVERAGES = (
    Function(
        "EMA",
        (
            needs("decay", number(0, 1, open=True), "the share of the old average that each update keeps"),
            keyword(
                "warm_up",
                boolean(),
                False,
                "use `min(decay, (1 + n) / (10 + n))` after `n` updates, to forget the first weights",
            ),
        ),
        doc="the exponential moving average of each weight",
    ),
)

RECOMPUTATIONS = (
    Function(
        "memory",
        (needs("limit", size(), "the memory that no device with a clone is to exceed"),),
        doc="as little of the forward pass again as the forecasts of memory and time say is needed",
    ),
    Function(
        "scopes",
        (needs("glob", string(filled=True), "the glob of the names of layers"),),
        doc="the layers whose names match, of which only the results are kept",
    ),
)

_SCORE = (needs("score", string(), "the name of a metric of the model, or `loss`"),)
GOALS = (
    Function("highest", _SCORE, doc="the evaluation in which the score is highest is the best"),
    Function("lowest", _SCORE, doc="the evaluation in which the score is lowest is the best"),
)

_WAIT = keyword("wait", duration(), 30.0, "how long the end of a run waits until everything is sent")
TRACKERS = (
    Function(
        "mlflow",
        (
            keyword("server", string(optional=True), None, "its address; default: MLFLOW_TRACKING_URI"),
            keyword(
                "experiment", string(optional=True), None, "the experiment; default: the name of the model"
            ),
            keyword("model", boolean(), True, "send `model.keras` as well"),
            _WAIT,
        ),
        doc="a server of MLflow gets the settings, scores and files of the run",
    ),
    Function(
        "python",
        (needs("function", string(), "`module:function`, which returns a tracker"), _WAIT),
        ANY,
        "a tracker that a Python function makes from the keyword arguments",
    ),
)

OPTIMIZERS = (
    Function(
        "python",
        (
            needs("function", string(), "`module:function`, which returns a keras.optimizers.Optimizer"),
            keyword(
                "exclude_from_weight_decay",
                either(listing(string(filled=True)), optional=True),
                None,
                "globs of the weights that do not decay",
            ),
        ),
        ANY,
        "an optimizer that a Python function makes from the keyword arguments",
    ),
)
SCHEDULES = (
    Function(
        "python",
        (needs("function", string(), "`module:function`, which returns a LearningRateSchedule of Keras"),),
        ANY,
        "a schedule that a Python function makes from the keyword arguments",
    ),
)


_OF_PAIRS = "a function of targets and predictions that returns a value for each example"
_OWN = {
    "layer": "a Keras layer or model",
    "loss": f"a Keras loss, or {_OF_PAIRS}",
    "metric": f"a Keras metric, or {_OF_PAIRS}",
    "initializer": "an initializer, or a function of `shape` and `dtype` that returns the first value of "
    "a weight",
    "regularizer": "a regularizer, or a function of a weight that returns its penalty",
    "constraint": "a constraint, or a function of a weight that returns the weight as it has to be",
    "activation": "an activation, or a function of a tensor that returns another one",
}
"""What a Python function may return in place of a Keras object, by the category of the object."""


def _own(category: str, made: str) -> Function:
    """Return `python` as it stands for a Keras object."""
    made_by = needs("function", string(), f"`module:function`: a function that returns {made}")
    doc = f"{article(category)} in Python, which gets the keyword arguments"
    if category == "layer":
        doc = "a layer that a Python function makes from the keyword arguments"
    return Function("python", (made_by,), ANY, doc)


OWN = {category: (_own(category, made),) for category, made in _OWN.items()}
"""What can be written instead of a Keras object, by the category of the object."""

FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "source": SOURCES,
    "feature": FEATURES,
    "transform": TRANSFORMS,
    "length": LENGTHS,
    "aggregation": AGGREGATIONS,
    "compression": COMPRESSIONS,
    "clip": CLIPS,
    "average": AVERAGES,
    "recomputation": RECOMPUTATIONS,
    "goal": GOALS,
    "tracker": TRACKERS,
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    **OWN,
}
"""Every table of functions, by what its functions are called in messages.

Those of Keras's categories, such as optimizers and losses, are what can be written beside Keras's own.
"""


def function(table: str, name: str) -> Function | None:
    """Return the function with this name in a table, or None."""
    return next((each for each in FUNCTIONS.get(table, ()) if each.name == name), None)


def function_names(table: str) -> tuple[str, ...]:
    """Return the names of all functions in a table."""
    return tuple(each.name for each in FUNCTIONS[table])


def arguments_of(table: str, call: Call) -> dict[str, Any]:
    """Return the arguments of a call that was checked, such as `shuffle(shards = 4)`, by their names."""
    signature = function(table, call.name)
    assert signature is not None
    names = [each.name for each in signature.arguments]
    return {**dict(zip(names, call.args, strict=False)), **call.kwargs}


# --- functions of models, which make inputs, shared layers, parameters, repeated steps and free weights ---

PARAMETER_TYPES = {
    "int": integer(optional=True),
    "float": number(optional=True),
    "bool": boolean(),
    "string": string(optional=True),
    "shape": Type("shape", optional=True),
}
"""The types that a parameter of a `layer` block can have, by what they are called there."""

_SIZES = either(integer(low=1), listing(integer(low=1)))
INPUT = Function(
    "input",
    (
        needs("dtype", kinds.dtype(), "the type of the elements"),
        needs("shape", kinds.free_shape(), "the shape without the batch axis"),
        keyword("assume", _SIZES, None, "the sizes that forecasts assume for the axes that are `none`"),
    ),
    doc="a tensor of the examples, which has the name of the binding",
)
REPEAT = Function(
    "repeat",
    (
        needs("count", integer(1), "how often the step is made"),
        needs("step", Type("any"), "the layer or layer block that is made"),
    ),
    doc="several steps of one kind, each with weights of its own",
)
SHARED = Function(
    "layer",
    (needs("step", Type("any"), "the layer that is made"),),
    doc="a layer that has the same weights wherever it is used as a step",
)
PARAMETER = Function(
    "parameter",
    (
        needs("type", kinds.word(*PARAMETER_TYPES), "the type of its value"),
        takes("default", Type("any"), None, "its value if a use of the layer does not give one"),
    ),
    doc="a parameter of a layer block",
)


@cache
def weight_function() -> Function:
    """Return the function `weight`, which makes a trainable tensor that no layer owns."""

    def keras(category: str, *, optional: bool = False) -> Type:
        return kinds.keras(category, signatures.words(category), optional=optional)

    return Function(
        "weight",
        (
            needs("shape", kinds.shape(), "the shape without the batch axis"),
            takes("initializer", keras("initializer"), "glorot_uniform", "its first value"),
            takes("regularizer", keras("regularizer", optional=True), None, "a penalty on it"),
            takes("constraint", keras("constraint", optional=True), None, "what it is held to"),
            takes("trainable", boolean(), True, "whether training changes it"),
            takes("name", string(), None, "its name; without one, that of its binding"),
        ),
    )


# --- functions of Keras -----------------------------------------------------------------------------------


STEP_ARGUMENTS = (
    Argument(
        "trainable", kinds.boolean(), "whether training changes its weights", default=True, positional=False
    ),
    Argument(
        "weights",
        kinds.string(optional=True, filled=True),
        "a file of weights to start from",
        positional=False,
    ),
)
"""The arguments that every step has whatever it makes: a layer, a model, or the layers of a `layer` block."""


def function_at(type_: Type, name: str, tables: tuple[str, ...] = ("layer",)) -> Function | None:
    """Return the function that a name means where a type is wanted, or None.

    Where any object may be, it is one of Keras, or a function of the language that is in one of the tables.
    """
    if type_.kind == "either":
        options = [option for option in type_.options if option.kind in {"call", "keras"}]
        return function_at(options[0], name, tables) if options else None
    of = type_.of if type_.kind in {"call", "keras"} else ""
    own = (function(table, name) for table in ((of,) if of else tables))
    found = next((each for each in own if each is not None), None)
    if found is not None or type_.kind == "call":
        return found
    objects = (signatures.find(category, name) for category in ((of,) if of else signatures.CATEGORIES))
    return next((each for each in objects if each is not None), None)


@lru_cache(maxsize=1000)
def step_function(function: Function) -> Function:
    """Return the function that makes a layer or model, with the arguments that every step has."""
    own = {each.name for each in function.arguments}
    added = tuple(each for each in STEP_ARGUMENTS if each.name not in own)
    return evolve(function, arguments=(*function.arguments, *added))
