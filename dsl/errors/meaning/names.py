"""TFD2xx: errors in the names and the structure of a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostic, Edit, Fix, Label
from dsl.errors.making import error, replacing, warning
from dsl.errors.reading import ATTRIBUTES
from dsl.errors.words import article, options, quoted
from dsl.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterable

_ITSELF = 2


def similar(kind: str, near: str | None) -> tuple[str, ...]:
    """Return the note that points to a similar name, if there is one.

    Args:
        kind: What the name is of, such as `attribute`.
        near: The similar name; None if there is none.
    """
    return () if near is None else (f"there is {article(kind)} with a similar name: {quoted(near)}",)


def _to_nearest(near: str | None, span: Span) -> Fix | None:
    return None if near is None else replacing(f"write {quoted(near)}", span, near)


def unknown_block(
    name: str, span: Span, near: str | None, known: Iterable[str], place: str | None
) -> Diagnostic:
    """A block that its place, or the top level if the place is None, does not take.

    Args:
        name: The kind of the block as it is written.
        span: The place of the kind in the spec.
        near: The known name that is probably meant; None if none is similar.
        known: The kinds of blocks that the place takes.
        place: The block around it, for the message; None at the top level.
    """
    return error(
        "TFD201",
        f"there is no block {quoted(name)}" + (f" in {place}" if place else ""),
        span,
        text="unknown block",
        notes=similar("block", near) or options("the blocks are", known, name),
        fix=_to_nearest(near, span),
    )


def block_elsewhere(name: str, span: Span, place: str | None, home: str | None) -> Diagnostic:
    """A block that the language has, but not here; None is the top level.

    Args:
        name: The kind of the block.
        span: The place of the kind in the spec.
        place: The block around it, for the message; None at the top level.
        home: The kind of block in which it can stand; None if that is the top level.
    """
    return error(
        "TFD201",
        f"{article(quoted(name))} block cannot stand {f'in {place}' if place else 'at the top level'}",
        span,
        text="not here",
        help=f"move it into the {quoted(home)} block"
        if home
        else "move it to the top level, outside all blocks",
    )


def unknown_attribute(
    name: str, span: Span, near: str | None, known: Iterable[str], place: str
) -> Diagnostic:
    """An attribute that its block does not have.

    Args:
        name: The name as it is written.
        span: The place of the name in the spec.
        near: The known name that is probably meant; None if none is similar.
        known: The attributes of the block.
        place: The block, for the message.
    """
    elsewhere = ATTRIBUTES.get(name)
    near = near if elsewhere is None else None
    notes = similar("attribute", near) or (
        options("its attributes are", known, name) if not elsewhere else ()
    )
    return error(
        "TFD202",
        f"{place} has no attribute {quoted(name)}",
        span,
        text="unknown attribute",
        notes=notes,
        help=elsewhere,
        fix=_to_nearest(near, span),
    )


def attribute_elsewhere(name: str, span: Span, place: str, home: str) -> Diagnostic:
    """An attribute of another block.

    Args:
        name: The name of the attribute.
        span: The place of the name in the spec.
        place: The block in which it stands, for the message.
        home: The kind of block that has the attribute.
    """
    return error(
        "TFD202",
        f"{place} has no attribute {quoted(name)}",
        span,
        text="unknown attribute",
        help=f"put it into the `{home}` block, which has one of this name",
    )


def duplicate(kind: str, name: str, span: Span, first: Span) -> Diagnostic:
    """A second definition of the same thing.

    Args:
        kind: What is defined, such as `attribute`.
        name: Its name.
        span: The place of the second definition in the spec.
        first: The place of the first definition.
    """
    return error(
        "TFD203",
        f"the {kind} {quoted(name)} is defined twice",
        span,
        text="defined again",
        labels=(Label(first, "first defined here"),),
        help=_SEVERAL_OPTIMIZERS if name in {"optimizer", "update"} else None,
    )


_SEVERAL_OPTIMIZERS = (
    'a step does one update; groups of weights have optimizers of their own in it: `optimizer { "head/*" -> '
    'Adam(1e-3), "*" -> SGD(0.1) }`'
)


def name_of_input(name: str, span: Span, first: Span | None) -> Diagnostic:
    """A layer that is given the name of an input, which Keras has for both.

    Args:
        name: The name of the layer.
        span: The place of the layer's name in the spec.
        first: The place of the input; None if it is not known.
    """
    return error(
        "TFD203",
        f"the layer name {quoted(name)} is that of an input",
        span,
        text="defined again",
        labels=() if first is None else (Label(first, "first defined here"),),
        help="choose another name: in a Keras model, layers and inputs share their names",
    )


def second_model(span: Span, first: Span) -> Diagnostic:
    """A second `model` block, as the two networks of a GAN would have.

    Args:
        span: The place of the second block in the spec.
        first: The place of the first block.
    """
    return error(
        "TFD203",
        "the block `model` is defined twice",
        span,
        text="defined again",
        labels=(Label(first, "first defined here"),),
        notes=("a spec trains one model by the gradients of one loss, which may be a sum of several",),
        help="give each model a spec of its own, or make both parts of one model and add their losses up; "
        "networks that are trained in turns, as a GAN's, cannot be described, because every step of a spec "
        "has one loss and one update, which is what makes it equal for any number of clones",
    )


def missing_attribute(name: str, place: str, span: Span, doc: str) -> Diagnostic:
    """An attribute that its block needs.

    Args:
        name: The name of the attribute.
        place: The block, for the message.
        span: The place of the block in the spec.
        doc: What the attribute means.
    """
    return error("TFD204", f"{place} lacks {quoted(name)}", span, text=f"no `{name}` in here", notes=(doc,))


def missing_average(span: Span) -> Diagnostic:
    """`mode = local` without `average_every`, which says how often the copies are averaged."""
    return error(
        "TFD204",
        "`update` lacks `average_every`",
        span,
        text="this mode needs it",
        notes=("each clone trains a copy of its own, and `average_every` says how often they are averaged",),
        help="add `average_every = ...`",
    )


def missing_model(span: Span) -> Diagnostic:
    """A spec without a model."""
    return error(
        "TFD204",
        "the spec has no `model` block",
        span,
        help='add `model "name" { ... }`, which says what one clone computes',
    )


def missing_output(name: str, span: Span) -> Diagnostic:
    """A `layer` block that gives nothing.

    Args:
        name: The name of the block.
        span: The place of the block in the spec.
    """
    return error(
        "TFD204",
        f"the layer {quoted(name)} lacks `output`",
        span,
        text="no `output` in here",
        help="add `output = ...` with what the layer gives",
    )


def missing_input(name: str, span: Span) -> Diagnostic:
    """A `layer` block that takes nothing.

    Args:
        name: The name of the block.
        span: The place of the block in the spec.
    """
    return error(
        "TFD204",
        f"the layer {quoted(name)} has no input",
        span,
        text="no `input()` in here",
        help="add `x = input()`",
    )


def misplaced_entry(place: str, span: Span, takes: str, advice: str | None) -> Diagnostic:
    """An expression in place of an attribute or block, or the other way round.

    Args:
        place: The block, for the message.
        span: The place of the item in the spec.
        takes: What the block takes, for the message.
        advice: What to do about it; None if there is no advice.
    """
    return error("TFD205", f"this is no item of {place}", span, text=f"expected {takes}", help=advice)


def block_written_as_attribute(name: str, span: Span) -> Diagnostic:
    """A block that is written as an attribute: `data = 3`.

    Args:
        name: The kind of the block.
        span: The place of the name in the spec.
    """
    return error(
        "TFD205",
        f"{quoted(name)} is a block, not an attribute",
        span,
        text="expected a block",
        help=f"write `{name} {{ ... }}`",
    )


def attribute_written_as_block(name: str, span: Span) -> Diagnostic:
    """An attribute that is written as a block: `count { 3 }`.

    Args:
        name: The name of the attribute.
        span: The place of the name in the spec.
    """
    return error(
        "TFD205",
        f"{quoted(name)} is an attribute, not a block",
        span,
        text="expected an attribute",
        help=f"write `{name} = ...`",
    )


def missing_version(at: Span, version: int) -> Diagnostic:
    """A spec that does not start with the version of the language.

    Args:
        at: The place of the start of the file, which is empty.
        version: The version that this tool knows.
    """
    return warning(
        "TFD206",
        "the spec does not say which version of the language it is in",
        at,
        help=f"write `tfdeploy = {version}` as the first item",
        fix=Fix(
            f"add `tfdeploy = {version}`", (Edit(Span(at.source, 0, 0), f"tfdeploy = {version}\n\n"),), "safe"
        ),
    )


def version_not_first(span: Span) -> Diagnostic:
    """The version stands further down."""
    return error(
        "TFD207", "`tfdeploy = ...` is not the first item", span, help="move it to the top of the file"
    )


def newer_version(found: int, known: int, span: Span) -> Diagnostic:
    """A version that came after this tool.

    Args:
        found: The version that the spec says.
        known: The newest version that this tool knows.
        span: The place of the version in the spec.
    """
    return error(
        "TFD207",
        f"the spec is in version {found} of the language, and this tool knows version {known}",
        span,
        text="newer than this tool",
        help="use a newer tfdeploy",
    )


def missing_label(kind: str, span: Span) -> Diagnostic:
    """A block that needs a name.

    Args:
        kind: The kind of the block.
        span: The place of the kind in the spec.
    """
    return error(
        "TFD208",
        f"this `{kind}` block has no name",
        span,
        text="expected a name in quotes after this",
        help=f'write `{kind} "name" {{`',
    )


def unexpected_label(kind: str, span: Span) -> Diagnostic:
    """A block that takes no name.

    Args:
        kind: The kind of the block.
        span: The place of the name in the spec.
    """
    return error(
        "TFD208",
        f"a `{kind}` block has no name",
        span,
        text="unexpected name",
        fix=replacing("remove the name", span, ""),
        help="remove the name",
    )


def bad_label(kind: str, label: str, span: Span) -> Diagnostic:
    """A name of a block that cannot be a part of the names of ops.

    Args:
        kind: The kind of the block.
        label: The name as it is written.
        span: The place of the name in the spec.
    """
    return error(
        "TFD208",
        f"{quoted(label)} cannot be the name of a `{kind}` block"
        if label
        else f"the name of a `{kind}` block is empty",
        span,
        text="unusable name",
        notes=("a name starts with a letter and continues with letters, digits, `_`, `-` and `.`",),
    )


def conflicting(first: str, second: str, place: str, span: Span, other: Span, advice: str) -> Diagnostic:
    """Two attributes of which only one may be given.

    Args:
        first: The name of the first attribute.
        second: The name of the second attribute.
        place: What has both, in words.
        span: The place of the first attribute.
        other: The place of the second attribute.
        advice: What to do.
    """
    return error(
        "TFD209",
        f"{place} has both {quoted(first)} and {quoted(second)}",
        span,
        text="this one",
        labels=(Label(other, "and this one"),),
        help=advice,
    )


def include_cycle(path: str, span: Span, chain: Iterable[str]) -> Diagnostic:
    """A file that, in the end, includes itself.

    Args:
        path: The file that includes itself.
        span: The place of the `include` that closes the circle in the spec.
        chain: The files of the circle, each of which includes the next one.
    """
    circle = [quoted(each) for each in chain]
    return error(
        "TFD210",
        f"{quoted(path)} includes itself",
        span,
        text="the circle closes here",
        notes=(" includes ".join(circle),) if len(circle) > _ITSELF else (),
    )


def include_outside(path: str, span: Span) -> Diagnostic:
    """An included file outside the tree of the including one.

    Args:
        path: The path as it is written.
        span: The place of the path in the spec.
    """
    return error(
        "TFD211",
        f"{quoted(path)} is outside the directory of this file",
        span,
        notes=("a relative path may only lead into the directory of the including file or below it",),
        help="give an absolute path, or move the file",
    )


def unknown_path(path: str, span: Span, near: str | None, known: Iterable[str]) -> Diagnostic:
    """A `--set` of something that is not there.

    Args:
        path: The path as it is written.
        span: The place of the path in the spec.
        near: The known name that is probably meant; None if none is similar.
        known: The names with which the path may go on.
    """
    return error(
        "TFD212",
        f"the spec has nothing at {quoted(path)}",
        span,
        text="unknown path",
        notes=similar("path", near) or options("it may continue with", known, path.rpartition(".")[2]),
        help=f"write {quoted(near)}" if near else None,
    )


def python_not_allowed(span: Span) -> Diagnostic:
    """`python(...)` without leave."""
    return error(
        "TFD213",
        "this spec runs Python code, which was not allowed",
        span,
        text="runs code of a module",
        help="if you trust the spec, give `--allow-python`",
    )


def reserved(name: str, span: Span, why: str) -> Diagnostic:
    """A name that cannot be given to anything.

    Args:
        name: The name as it is written.
        span: The place of the name in the spec.
        why: What the name is used for.
    """
    return error("TFD214", f"{quoted(name)} cannot be defined", span, text=why, help="choose another name")
