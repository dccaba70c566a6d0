"""The functions of the language, in a table for each use, such as sources, transforms and aggregations."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from attrs import evolve

from dsl.errors.wording import article
from dsl.ir import Call
from dsl.schema import signatures
from dsl.schema.data_functions import FEATURES, LENGTHS, SOURCES, TRANSFORMS
from dsl.schema.notation import functions, type_of
from dsl.schema.types import Function, Type

AGGREGATIONS = functions("""
add_n: all gradients of a variable are summed on one device
tree: pairs of clones are summed, level by level
hierarchical: gradients are summed in each group of devices, and then between the groups
  size = none: int[1,)? -- devices in a group; default: those of a task
ring: all-reduce in a ring: every device passes chunks to the next one
shuffle: every gradient is split into parts that are summed on different devices
  shards = none: int[1,)? -- how many parts; default: up to one for each clone
collective: TensorFlow's CollectiveReduce
""")
COMPRESSIONS = functions("""
bfloat16: gradients are sent with 16 bits: the range of float32, and 8 bits of precision
float16: gradients are sent with 16 bits: 11 bits of precision, and 65,504 at most
power_sgd: two thin matrices are sent in place of each large one; what they lack is added in the next step
  rank = 4: int[1,1024] -- columns of the two matrices that are sent in place of one
""")
CLIPS = functions("""
global_norm: scales all gradients if their common norm is larger than the bound
  x: float(0,) -- the bound
norm: scales each gradient whose own norm is larger than the bound
  x: float(0,) -- the bound
value: limits each element to plus and minus the bound
  x: float(0,) -- the bound
""")
AVERAGES = functions("""
EMA: the exponential moving average of each weight
  decay: float(0,1) -- the share of the old average that each update keeps
  *warm_up = false: bool -- use `min(decay, (1 + n) / (10 + n))` after `n` updates, to forget the
      first weights
""")
RECOMPUTATIONS = functions("""
memory: as little of the forward pass again as the forecasts of memory and time say is needed
  limit: size -- the memory that no device with a clone is to exceed
scopes: the layers whose names match, of which only the results are kept
  glob: text -- the glob of the names of layers
""")
GOALS = functions("""
highest: the evaluation in which the score is highest is the best
  score: str -- the name of a metric of the model, or `loss`
lowest: the evaluation in which the score is lowest is the best
  score: str -- the name of a metric of the model, or `loss`
""")
TRACKERS = functions("""
mlflow: a server of MLflow gets the settings, scores and files of the run
  *server = none: str? -- its address; default: MLFLOW_TRACKING_URI
  *experiment = none: str? -- the experiment; default: the name of the model
  *model = true: bool -- send `model.keras` as well
  *wait = 30.0: duration -- how long the end of a run waits until everything is sent
python: a tracker that a Python function makes from the keyword arguments
  function: str -- `module:function`, which returns a tracker
  *wait = 30.0: duration -- how long the end of a run waits until everything is sent
  **: any?
""")
OPTIMIZERS = functions("""
python: an optimizer that a Python function makes from the keyword arguments
  function: str -- `module:function`, which returns a keras.optimizers.Optimizer
  *exclude_from_weight_decay = none: [text] ? -- globs of the weights that do not decay
  **: any?
""")
SCHEDULES = functions("""
python: a schedule that a Python function makes from the keyword arguments
  function: str -- `module:function`, which returns a LearningRateSchedule of Keras
  **: any?
""")

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


def _own(category: str, made: str) -> tuple[Function, ...]:
    """Return `python` as it stands for a Keras object."""
    doc = f"{article(category)} in Python, which gets the keyword arguments"
    if category == "layer":
        doc = "a layer that a Python function makes from the keyword arguments"
    return functions(f"""
python: {doc}
  function: str -- `module:function`: a function that returns {made}
  **: any?
""")


OWN = {category: _own(category, made) for category, made in _OWN.items()}
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
    "int": type_of("int?"),
    "float": type_of("float?"),
    "bool": type_of("bool"),
    "string": type_of("str?"),
    "shape": type_of("sizes?"),
}
"""The types that a parameter of a `layer` block can have, by what they are called there."""

INPUT, REPEAT, SHARED, PARAMETER = functions("""
input: a tensor of the examples, which has the name of the binding
  dtype: dtype -- the type of the elements
  shape: [int[1,)?] -- the shape without the batch axis
  *assume = none: int[1,) | [int[1,)] -- the sizes that forecasts assume for the axes that are `none`
repeat: several steps of one kind, each with weights of its own
  count: int[1,) -- how often the step is made
  step: any -- the layer or layer block that is made
layer: a layer that has the same weights wherever it is used as a step
  step: any -- the layer that is made
parameter: a parameter of a layer block
  type: word:int/float/bool/string/shape -- the type of its value
  default = none: any -- its value if a use of the layer does not give one
""")


@cache
def weight_function() -> Function:
    """Return the function `weight`, which makes a trainable tensor that no layer owns."""
    words = {each: signatures.words(each) for each in ("initializer", "regularizer", "constraint")}
    (found,) = functions(
        """
weight:
  shape: shape -- the shape without the batch axis
  initializer = "glorot_uniform": keras:initializer -- its first value
  regularizer = none: keras:regularizer? -- a penalty on it
  constraint = none: keras:constraint? -- what it is held to
  trainable = true: bool -- whether training changes it
  name = none: str -- its name; without one, that of its binding
""",
        **words,
    )
    return found


# --- functions of Keras -----------------------------------------------------------------------------------


(_STEP,) = functions("""
step: whatever it makes
  *trainable = true: bool -- whether training changes its weights
  *weights = none: text? -- a file of weights to start from
""")
STEP_ARGUMENTS = _STEP.arguments
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
