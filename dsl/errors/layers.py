"""Models: layers and what Python code makes for them, weights, optimizers, and tensors as values."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.diagnostics import Diagnostic
from dsl.errors.wording import MOST_NAMES, Placeless, Wording, either
from dsl.source import Span

MOST_FAULTS = 5

# --- vocabularies, statistics and boundaries --------------------------------------------------------------

no_state = Wording(
    "TFD366: `{layer}` has no `{argument}`",
    text="neither `{argument}` nor `adapt`",
    help='write {words:|`vocabulary = ["a", "b"]`, `vocabulary = "words.txt"`|`{argument}`} or '
    "`adapt = data.train`",
)
state_given_twice = Wording(
    "TFD367: `{layer}` has both `{argument}` and `adapt`",
    text="given here",
    places={"adapt?": "learnt from data here"},
    help="leave out one of them",
)
split_to_adapt_missing = Wording(
    "TFD368: `{layer}` learns from `data.{split}`, which the spec does not have",
    places={"data?": "there is no `{split}` here"},
    help="add `{split} = ...` to the block `data`, or name another split",
)
cannot_adapt_here = Wording(
    "TFD369: `{layer}` cannot learn from data here: {reason}",
    help="write it as a step that is used once, such as `x -> Normalization(adapt = data.train)`",
)
unreadable_vocabulary = Wording(
    "TFD580: the vocabulary `{path}` cannot be read: {reason}",
    help="the file has one word in each line, in UTF-8; its path is relative to the folder of the spec",
)
nothing_learnt = Wording("TFD581: `{layer}` cannot learn from `data.{split}`: {reason}")
state_does_not_fit = Wording(
    "TFD582: `{path}` does not have what `{layer}` has learnt: {reason}",
    notes=("the weights were trained with it",),
    help='undo the change, or give this run a directory of its own, as in `directory = "runs/second"`',
)
learnt_in_many_graphs = Wording(
    "TFD584: `{layer}` cannot learn from data if every worker has a graph of its own",
    places={"step?": "learns from data"},
    notes=("each worker would learn for itself, and nothing compares what they have learnt",),
    help="use `replication = in_graph`, or give the layer what an earlier run has learnt",
)
weights_before_adapt = Wording(
    "TFD583: `{layer}` learns from what layers with weights make: {before:listed_in_full}",
    text="learns before training",
    help="before a layer with `adapt`, use only layers and operations without weights",
)

# --- objects that Python code makes -----------------------------------------------------------------------

wrong_result = Wording(
    "TFD585: `{path}` returned an object of class `{found}`", text="here", help="return {wanted}"
)
arguments_missing = Wording(
    "TFD585: `{path}` needs {names:ticked and}",
    text="gives no {names:ticked and}",
    notes=("at this place there must be {wanted}, or a function that returns one",),
    help='write `python("{path}", {example})`',
)
arguments_not_saved = Wording(
    "TFD585: the arguments of `{path}` would be lost in the exported model",
    text="is a function, of which Keras saves the name",
    notes=("at this place there must be {wanted}",),
    help="write a class with `__init__`, `__call__` and `get_config`, or give the arguments defaults; an "
    "activation with arguments is a subclass of `keras.Layer`",
)
raised = Wording(
    "TFD586: the Python code of `{step}` raised {reason}", text="run by this", notes=("raised at {place?}",)
)
not_summable = Wording(
    "TFD587: the state of the metric `{path}` cannot be added up",
    text="here",
    notes=(
        "{reason}",
        "each clone updates a state of its own from zero, and the states of all clones are added",
    ),
    help="let `update_state` only add to the state, and compute the rest in `result`",
)
undeclared_state = Wording(
    "warning TFD564: `{layer}` does not say how clones join its state `{state}`",
    notes=(
        either(
            "{if:first}each clone changes it by its own examples, and the value of clone 0 is kept",
            "each clone changes it by its own examples, and the mean over the clones is kept",
        ),
    ),
    help='write `self.add_weight(..., aggregation="sum")` if changes are to be added up, `"mean"` or '
    '`"only_first_replica"`',
)

# --- frozen weights, and weights from files ---------------------------------------------------------------

freeze_matches_nothing = Wording(
    "TFD570: no weight of the model matches `{glob}`, which is to be frozen",
    text="matches nothing",
    notes=("the nearest names are {names?:ticked ,}",),
)
recompute_matches_nothing = Wording(
    "TFD529: no layer of the model matches `{glob}`, which is to be computed again",
    text="matches nothing",
    notes=("the nearest names are {names?:ticked ,}",),
)
part_matches_nothing = Wording(
    "TFD572: no weight of the model matches `{glob}`, which is to start from `{file}`",
    text="matches nothing",
    notes=("the nearest names are {names?:ticked ,}",),
)
step_without_weights = Wording("TFD572: the step has no weights that could start from `{file}`")
weights_do_not_fit = Wording(
    "TFD741: the weights in `{path}` are not those of this model",
    notes=(f"{{faults:each {MOST_FAULTS}}}",),
    help="{if:missing?}to start a part of the model from it, write a rule in `train`: "
    '`weights {{ "part/*" -> "file.keras" }}`',
)
part_does_not_fit = Wording(
    "TFD741: the weights in `{path}` do not fit `{pattern}`", notes=(f"{{faults:each {MOST_FAULTS}}}",)
)
weights_unreadable = Wording("TFD742: the weights in `{path}` cannot be read: {reason}")
model_unreadable = Placeless(
    "TFD790: no Keras model can be read from {path:in_full}: {reason}",
    file="{path}",
)
model_has_code = Placeless(
    "TFD790: {path:in_full} names code that is not of Keras: {names:listed}",
    notes=("a model in a file is data, and its code is not run unless you say so",),
    help="if you trust the file, add `--allow-python`: the modules are imported from here",
    file="{path}",
)
model_unwritable = Placeless(
    "TFD791: {path:in_full} has what the language cannot say",
    notes=("{faults:each}",),
    file="{path}",
)
model_differs = Placeless(
    "TFD791: what was written does not compute what {path:in_full} does: {reason}",
    notes=("so nothing was kept",),
    file="{path}",
)
data_unlike = Placeless(
    "TFD792: no spec can be written from the examples in {path:in_full}: {reason}",
    file="{path}",
)
weights_not_fetched = Wording(
    "TFD754: the weights of {application:quoted} cannot be fetched: {reason}",
    text="{if:span}wants them",
    notes=("the file is {origin}",),
    help="put it there as {target:in_full}, or write `weights = none`",
)


def everything_frozen(names: Sequence[str], span: Span | None) -> Diagnostic:
    """Return the diagnostic of a model all of whose weights, `names`, are frozen."""
    shown = ", ".join(f"`{each}`" for each in names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return Diagnostic(
        "TFD571",
        "all weights of the model are frozen, so there is nothing to train",
        span,
        notes=(f"weights: {shown}{more}",),
        help="leave out `trainable = false`, or the glob in `freeze`, for the layers that are to be trained",
    )


# --- optimizers -------------------------------------------------------------------------------------------

weights_without = Wording(
    "TFD550: no optimizer for {names:counted trainable weight}",
    text="no rule up to this one matches them",
    notes=("weights: {names:listed}",),
    help='end the block with a rule for all that is left, such as `"*" -> SGD(0.01)`',
)
group_without_weights = Wording(
    "TFD551: no weight is left for `{pattern}`",
    text="rules before this one match all its weights",
    notes=("the first rule that matches a weight gives its optimizer",),
    help="put the rule for fewer weights first",
)
unusable = Wording(
    "TFD552: `{path}` gives nothing to train with",
    text="made by this call",
    notes=("{reason}",),
    help="{advice?}",
)


# --- tensors as values, outputs, and what mixes examples --------------------------------------------------

chain_too_long = Wording(
    "TFD108: arithmetic with tensors has more than {most:d} signs in a row",
    text="one sign too many",
    help="give parts of it names of their own, or write `[a, b, c] -> Add()`",
)
constant_into_layer = Wording(
    "TFD560: `{step}` gets a tensor that depends on no input of the model",
    text="a layer works on examples, and this tensor has none",
    help="to learn a tensor that is the same for all examples, such as an embedding of positions, write "
    "`positions = weight([10, 64])`",
)
constant_weights = Wording(
    "TFD575: these weights depend on no input of the model",
    text="all examples get the same weights",
    help="give an input of the model, or what is computed from one; a number as the factor of a loss is "
    "written before it: `0.5 * ([target, prediction] -> Loss())`",
)
no_class_weights = Wording(
    "TFD576: there is no weight in `class_weight`",
    text="an empty list",
    help="write a number for each class, beginning with class 0: `class_weight = [1.0, 5.0]`",
)
_outputs_alike = Wording(
    "TFD577: the outputs `{other}` and `{name}` cannot be told apart in a table",
    text="{if:other_span?}too much like another output",
    places={"other_span?": "the other output"},
    notes=("the columns of `{short}` are called `{short}_0`, `{short}_1`, ..., which may be `{long}`",),
    help="give one of them another name",
)
no_outputs = Wording(
    "TFD578: this model would return nothing",
    text="no output",
    help="write a name for each output: `output = {{ probabilities = p, embedding = e }}`",
)
constant_output = Wording(
    "TFD579: this output depends on no input of the model",
    text="it has no examples",
    help="an output has a value for each example: give what is computed from an input",
)
batch_indexed = Wording(
    "TFD561: this index chooses among the examples of {name?:|`{name}`|this tensor}",
    text="the first axis is that of the batch",
    notes=("each clone has its own batch, so the result would depend on the number of clones",),
    help="begin with `:` for all examples{name?:|, as in `{name}[:, 0]`,|} or with `...`",
)
unusable_index = Wording(
    "TFD553: a tensor cannot be indexed in this way",
    text="{reason}",
    help="an index takes one tensor of whole numbers, beside `:`, slices and `...`, as in `table[ids]`; "
    "with `ops.take_along_axis(x, indices, axis = 1)` each example chooses from its own numbers",
)
_joins_examples = Wording(
    "TFD561: {what} mixes the examples of a batch: its result has the shape `{made}`",
    text="the first axis is that of the batch",
    notes=("each clone has its own batch, so the result would depend on the number of clones",),
    help="leave the first axis as it is: `axis = -1`, or an index that begins with `:`",
)
_joins_weights = Wording(
    "TFD561: the result of {what} has the shape `{made}`, whose first axis is not that of the batch",
    text="gets {of:listed}",
    notes=("a weight has no axis for the batch; a tensor of examples has it first",),
    help="the result of an operation with examples must have them along its first axis, each of them "
    "computed by itself",
)
several_losses = Wording(
    "TFD590: a term of the loss is one number for each example, and this tensor has the shape "
    "`{shape:sizes}`",
    text="more than one number for an example",
    help="add the numbers or take their mean: `ops.sum(x, axis = -1)`, `ops.mean(x, axis = [1, 2])`",
)
constant_loss = Wording(
    "TFD591: this term of the loss depends on no input of the model",
    text="the same for all examples",
    help="for a penalty on weights, write `regularize = L2(1e-4)`",
)
no_prediction = Wording(
    "TFD592: the model does not say what it predicts",
    text="no term of this loss has a prediction",
    help="add `output = x`, the tensor that evaluation and the exported model give",
)
no_call_arguments = Wording(
    "TFD562: `{name}` takes no arguments in second brackets",
    text="only a layer's own call takes these",
    help="write all arguments in the first brackets",
)
index_of_device = Wording(
    "TFD301: the index of a tensor takes `first:last`, not a range of devices",
    text="this is how devices are chosen",
    help="write `:` for all of an axis, and `1:3` for two places of it",
)
random_in_evaluation = Wording(
    "TFD316: `{transform}` changes examples at random, and `{split}` is not for training",
    text="for `train` only",
    help="{crops:|write `center_crop` with the same size|leave it out of `{split}`}",
)
random_before_cache = Wording(
    "TFD317: `{transform}` before `cache` would change an example in the same way in every pass",
    text="computed only once",
    places={"cache?": "keeps what is before it"},
    help="put `{transform}` after `cache()`",
)
mixing_layer = Wording(
    "TFD561: `{layer}` mixes each image with others of its batch, and does not mix their labels",
    text="depends on how examples are divided among clones",
    help="mix examples in the data: `-> mixup(image, label)` after the other transforms of `train`",
)


def several_outputs(step: str, count: int, span: Span | None, names: int = 1) -> Diagnostic:
    """Return the diagnostic of a step with another number of outputs than the spec has names for."""
    shown = ", ".join(("first", "second", "third", "fourth")[:count]) + (", ..." if count > 4 else "")  # noqa: PLR2004
    one = "one output" if count == 1 else f"{count} outputs"
    return Diagnostic(
        "TFD555",
        f"`{step}` has {one}, and {'one is' if names == 1 else f'{names} are'} expected here",
        span,
        one,
        help=f"give each output a name: `{shown} = ...`; `_` stands for one that you do not need"
        if count > 1
        else "write one name before the `=`",
    )


def outputs_alike(name: str, other: str, span: Span | None, other_span: Span | None = None) -> Diagnostic:
    """Return the diagnostic of two outputs whose columns in a table of predictions could have one name."""
    short, long = sorted((name, other), key=len)
    return _outputs_alike(span, name=name, other=other, short=short, long=long, other_span=other_span)


def joins_examples(function: str, made: str, span: Span | None, of: Sequence[str] = ()) -> Diagnostic:
    """Return the diagnostic of an operation, with weights `of` these shapes, whose result has no examples."""
    what = "this index" if function == "getitem" else f"`{function}`"
    return (
        _joins_weights(span, what=what, made=made, of=of)
        if of
        else _joins_examples(span, what=what, made=made)
    )
