"""What layers, weights and optimizers are made from: data, files and Python code of the user's."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.diagnostics import Diagnostic
from dsl.errors.wording import Wording, either
from dsl.source import Span

MOST_FAULTS = 5

_MOST_NAMES = 5

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
weights_not_fetched = Wording(
    "TFD754: the weights of {application:quoted} cannot be fetched: {reason}",
    text="{if:span}wants them",
    notes=("the file is {origin}",),
    help="put it there as {target:in_full}, or write `weights = none`",
)


def everything_frozen(names: Sequence[str], span: Span | None) -> Diagnostic:
    """Return the diagnostic of a model all of whose weights, `names`, are frozen."""
    shown = ", ".join(f"`{each}`" for each in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
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
