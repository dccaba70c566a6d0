"""TFD2xx: the names and the structure of a spec."""

from __future__ import annotations

from collections.abc import Iterable

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.wording import Replacing, Wording, either, quoted, unknown
from dsl.instead import FOREIGN_ATTRIBUTES
from dsl.source import Span

unknown_block = unknown(
    "TFD201: there is no block {name:quoted}{place?:| in {place}|}",
    "block",
    "the blocks are {known?:alternatives {name}}",
)
block_elsewhere = Wording(
    "TFD201: {name:article quoted} block cannot stand {place?:|in {place}|at the top level}",
    text="not here",
    help="move it {home?:|into the {home:quoted} block|to the top level, outside all blocks}",
)
attribute_elsewhere = Wording(
    "TFD202: {place} has no attribute {name:quoted}",
    text="unknown attribute",
    help="put it into the `{home}` block, which has one of this name",
)
name_of_input = Wording(
    "TFD203: the layer name {name:quoted} is that of an input",
    text="defined again",
    places={"first?": "first defined here"},
    help="choose another name: in a Keras model, layers and inputs share their names",
)
second_model = Wording(
    "TFD203: the block `model` is defined twice",
    text="defined again",
    places={"first": "first defined here"},
    notes=("a spec trains one model by the gradients of one loss, which may be a sum of several",),
    help="give each model a spec of its own, or make both parts of one model and add their losses up; "
    "networks that are trained in turns, as a GAN's, cannot be described, because every step of a spec "
    "has one loss and one update, which is what makes it equal for any number of clones",
)
missing_attribute = Wording(
    "TFD204: {place} lacks {name:quoted}", text="no `{name}` in here", notes=("{doc}",)
)
missing_average = Wording(
    "TFD204: `update` lacks `average_every`",
    text="this mode needs it",
    notes=("each clone trains a copy of its own, and `average_every` says how often they are averaged",),
    help="add `average_every = ...`",
)
missing_model = Wording(
    "TFD204: the spec has no `model` block",
    help='add `model "name" {{ ... }}`, which says what one clone computes',
)
missing_output = Wording(
    "TFD204: the layer {name:quoted} lacks `output`",
    text="no `output` in here",
    help="add `output = ...` with what the layer gives",
)
missing_input = Wording(
    "TFD204: the layer {name:quoted} has no input", text="no `input()` in here", help="add `x = input()`"
)
misplaced_entry = Wording("TFD205: this is no item of {place}", text="expected {takes}", help="{advice?}")
block_written_as_attribute = Wording(
    "TFD205: {name:quoted} is a block, not an attribute",
    text="expected a block",
    help="write `{name} {{ ... }}`",
)
attribute_written_as_block = Wording(
    "TFD205: {name:quoted} is an attribute, not a block",
    text="expected an attribute",
    help="write `{name} = ...`",
)
missing_version = Wording(
    "warning TFD206: the spec does not say which version of the language it is in",
    help="write `tfdeploy = {version:d}` as the first item",
    fix=Replacing("add `tfdeploy = {version:d}`", "tfdeploy = {version:d}\n\n", safe=True),
)
version_not_first = Wording(
    "TFD207: `tfdeploy = ...` is not the first item", help="move it to the top of the file"
)
newer_version = Wording(
    "TFD207: the spec is in version {found:d} of the language, and this tool knows version {known:d}",
    text="newer than this tool",
    help="use a newer tfdeploy",
)
missing_label = Wording(
    "TFD208: this `{kind}` block has no name",
    text="expected a name in quotes after this",
    help='write `{kind} "name" {{`',
)
unexpected_label = Wording(
    "TFD208: a `{kind}` block has no name",
    text="unexpected name",
    help="remove the name",
    fix=Replacing("remove the name", ""),
)
bad_label = Wording(
    "TFD208: {label?:|{label:quoted} cannot be the name of a `{kind}` block|"
    "the name of a `{kind}` block is empty}",
    text="unusable name",
    notes=("a name starts with a letter and continues with letters, digits, `_`, `-` and `.`",),
)
conflicting = Wording(
    "TFD209: {place} has both {first:quoted} and {second:quoted}",
    text="this one",
    places={"other": "and this one"},
    help="{advice}",
)
include_outside = Wording(
    "TFD211: {path:quoted} is outside the directory of this file",
    notes=("a relative path may only lead into the directory of the including file or below it",),
    help="give an absolute path, or move the file",
)
include_cycle = Wording(
    "TFD210: {path:quoted} includes itself", text="the circle closes here", notes=("{circle?}",)
)
unknown_path = Wording(
    "TFD212: the spec has nothing at {path:quoted}",
    text="unknown path",
    notes=(
        either(
            "there is a path with a similar name: {near?:quoted}",
            "it may continue with {known?:alternatives {last}}",
        ),
    ),
    help="write {near?:quoted}",
)
python_not_allowed = Wording(
    "TFD213: this spec runs Python code, which was not allowed",
    text="runs code of a module",
    help="if you trust the spec, give `--allow-python`",
)
reserved = Wording("TFD214: {name:quoted} cannot be defined", text="{why}", help="choose another name")


_unknown_attribute = unknown(
    "TFD202: {place} has no attribute {name:quoted}",
    "attribute",
    "{unless:advice?}its attributes are {known?:alternatives {name}}",
    help="{advice?}",
)


def unknown_attribute(
    name: str, span: Span, near: str | None, known: Iterable[str], place: str
) -> Diagnostic:
    """Return the diagnostic of an attribute that `place`, a block in words, does not have."""
    advice = FOREIGN_ATTRIBUTES.get(name)
    near = near if advice is None else None
    return _unknown_attribute(span, name=name, place=place, near=near, known=known, advice=advice)


def duplicate(kind: str, name: str, span: Span, first: Span) -> Diagnostic:
    """Return the diagnostic of a second definition of a thing of a kind, such as `attribute`."""
    return Diagnostic(
        "TFD203",
        f"the {kind} {quoted(name)} is defined twice",
        span,
        "defined again",
        labels=(Label(first, "first defined here"),),
        help="a step does one update; groups of weights have optimizers of their own in it: "
        '`optimizer { "head/*" -> Adam(1e-3), "*" -> SGD(0.1) }`'
        if name in {"optimizer", "update"}
        else None,
    )
