"""The `data` block of files of examples, for the inputs of a model, or with a first model that reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

from attrs import evolve, field, frozen

from dsl import ir
from dsl.diagnostics import RunError
from dsl.errors.layers import data_unlike
from dsl.source import Source
from grammar.format import WIDTH, format_text
from grammar.unparse import block, quoted, splits
from tfdeploy.onramp.found import Found, Tensor
from tfdeploy.onramp.graph import free_name
from tfdeploy.onramp.tabular import joined

MOST_SHUFFLED = 10_000
MOST_WORDS = 20
"""How many words a spec names; more are learnt from the data."""
FEW_COLUMNS = 3
"""How many columns of numbers remain inputs of their own."""
WIDEST = 110
COLOURS = 3
"""How many channels `images` gives if it is not told."""
MOST_STEPS = 2
"""How many steps of a flow are written in one line."""


@frozen
class Fitted:
    """What feeds the inputs of a model."""

    found: Found
    tensors: Mapping[str, Tensor]
    declared: Mapping[str, ir.Input] = field(factory=dict)

    def block(self, folder: Path) -> str:
        """Return the text of the `data` block of a spec in a folder."""
        found = self.found
        comments = [f"{name}: {each.seen}" for name, each in self.tensors.items() if each.seen]
        if len(comments) > FEW_COLUMNS * 2:
            comments = []
        if found.label in {each.name for each in self.tensors.values()}:
            comments.append(f"`{found.label}` is taken for the label {found.why}")
        comments += [f"{each[0].upper()}{each[1:]}" for each in found.lost]
        given = {name: each.given for name, each in self.tensors.items()}
        shuffled = ir.Call("shuffle", (max(2, min(found.count, MOST_SHUFFLED)),))
        made = {"train": ir.Split("train", self._source(folder, given), (*self._transforms(), shuffled))}
        for split, there in found.splits.items():
            others = {name: there.get(each.name) for name, each in self.tensors.items()}
            if all(others.values()):
                source = self._source(folder, others)
                made[split] = ir.Split(split, source, self._transforms())  # type: ignore[arg-type] # a name of one
        data = ir.Data(made["train"], made.get("validation"), made.get("test"))
        return block("data", [*(f"# {each}" for each in comments), *map(_in_lines, splits(data))])

    def _source(self, folder: Path, given: Mapping[str, ir.Value]) -> ir.Call:
        found = self.found
        path = os.path.relpath(found.path, folder)
        tensors = {} if found.source == "images" else given
        masks = {} if found.masks is None else {"masks": os.path.relpath(found.masks, folder)}
        return ir.Call(found.source, (path, *found.args), {**found.kwargs, **masks, **tensors})

    def _transforms(self) -> tuple[ir.Call, ...]:
        """Return what makes tensors fit the inputs that they feed."""
        made: list[ir.Call] = []
        if self.found.source == "images":
            renamed = {name: each.name for name, each in self.tensors.items() if name != each.name}
            made += [ir.Call("rename", (), renamed)] if renamed else []
        for name, each in self.tensors.items():
            wanted = self.declared.get(name)
            if wanted is None:
                continue
            if each.shape != wanted.shape and None not in (wanted.shape or ()):
                made.append(ir.Call("reshape", (name, wanted.shape)))
            dtype = each.dtype
            if each.factor != 1:
                made += [
                    ir.Call("cast", (name, "float32")),
                    ir.Call("scale", (name, each.factor)),
                ]
                dtype = "float32"
            if not (self.found.is_table and isinstance(each.given, str | tuple)) and dtype != wanted.dtype:
                made.append(ir.Call("cast", (name, str(wanted.dtype))))
        return tuple(made)


def fitted(
    found: Found,
    inputs: Mapping[str, ir.Input],
    labels: Mapping[str, ir.Input],
    classes: Mapping[str, int],
) -> Fitted:
    """Return what feeds the inputs of a model: by their names, else by what they take, in their order.

    Raises:
        RunError: Nothing fits an input.
    """
    left = dict(found.tensors)
    fed: dict[str, Tensor] = {}
    wanted = {**inputs, **labels}
    named = {name: name for name in wanted}
    if found.label is not None and len(labels) == 1:
        named |= {next(iter(labels)): found.label}
    for name, other in named.items():
        if other in left and _fits(left[other], wanted[name]):
            fed[name] = left.pop(other)
    for name in [each for each in wanted if each not in fed]:
        fed[name] = _next(found, left, name, wanted[name], is_label=name in labels)
    for name, count in classes.items():
        most = fed[name].classes
        if most is not None and most > count:
            reason = f"`{fed[name].name}` goes up to {most - 1}, and the model tells {count} classes apart"
            raise RunError(data_unlike(path=str(found.path), reason=reason))
    if found.source == "images":
        fed, found = _resized(fed, found, inputs)
    if found.is_table:
        fed = {
            name: _as_vector(each) if wanted[name].shape == (1,) and not each.shape else each
            for name, each in fed.items()
        }
    return Fitted(found, {name: fed[name] for name in wanted}, wanted)


def _next(found: Found, left: dict[str, Tensor], name: str, declared: ir.Input, *, is_label: bool) -> Tensor:
    """Return what feeds an input, and take it out of what is left."""
    rest = {each: tensor for each, tensor in left.items() if each != found.label or is_label}
    fit = next((each for each in rest.values() if _fits(each, declared)), None)
    if fit is not None:
        return left.pop(fit.name)
    numbers = [each for each in rest.values() if each.words is None and not each.shape]
    size = prod(each or 1 for each in declared.shape or ())
    if not found.is_table or declared.dtype == "string" or len(numbers) != size:
        raise RunError(data_unlike(path=str(found.path), reason=_misfit(name, declared, rest)))
    for each in numbers:
        del left[each.name]
    return joined(numbers, name, found.columns)


def _as_vector(column: Tensor) -> Tensor:
    return evolve(column, given=(column.given,), shape=(1,))


def _misfit(name: str, declared: ir.Input, rest: Mapping[str, Tensor]) -> str:
    shape = ", ".join("none" if each is None else str(each) for each in declared.shape or ())
    there = ", ".join(f"`{each.name}` {each.dtype} {list(each.shape)}" for each in [*rest.values()][:8])
    more = there or "nothing more"
    return f"nothing in it fits the input `{name}`, {declared.dtype} [{shape}]; there is {more}"


def _fits(tensor: Tensor, declared: ir.Input) -> bool:
    """Whether a tensor can feed an input, after other types and shapes."""
    if (tensor.words is not None) != (declared.dtype == "string"):
        return False
    if "int" in str(declared.dtype) and not tensor.is_whole:
        return False
    shape = declared.shape or ()
    if None in shape or (tensor.name == "image" and len(shape) == len(tensor.shape) == 3):  # noqa: PLR2004
        pairs = zip(shape[-1:], tensor.shape[-1:], strict=True)
        return len(shape) == len(tensor.shape) and all(one in (None, other) for one, other in pairs)
    if tensor.name == "mask":  # of the size of its image
        return len(shape) == len(tensor.shape) - 1 or (len(shape) == len(tensor.shape) and shape[-1] == 1)
    return prod(shape) == prod(tensor.shape)  # type: ignore[arg-type] # no size is none


def _resized(
    fed: dict[str, Tensor], found: Found, inputs: Mapping[str, ir.Input]
) -> tuple[dict[str, Tensor], Found]:
    """Return images in the size that a model takes."""
    for name, each in fed.items():
        shape = inputs[name].shape if name in inputs else None
        if each.name == "image" and shape and None not in shape:
            *sides, channels = (each or 1 for each in shape)
            colours = {} if channels == COLOURS else {"channels": channels}
            found = evolve(found, args=(tuple(sides),), kwargs=colours)
            fed = {
                **{
                    other: evolve(mask, shape=(*sides, 1)) if mask.name == "mask" else mask
                    for other, mask in fed.items()
                },
                name: evolve(each, shape=(*sides, channels)),
            }
    return fed, found


def _in_lines(split: str) -> str:
    """Return the text of a split, with a line for each tensor if one line is too long."""
    first, *rest = split.split("\n")
    if len(first) > WIDTH - 2:
        first = re.sub(r", (\w+ = (?!image\b))", r",\n\1", first).removesuffix(")") + ",\n)"
    return "\n".join([first, *rest])


def _flow(source: str, steps: Sequence[str], name: str) -> str:
    """Return the text of a binding of a flow, with a line for each step if there are several."""
    arrow = "\n-> " if len(steps) > MOST_STEPS else " -> "
    return f"{name} = {arrow.join([source, *steps])}"


def first_spec(found: Found, name: str, folder: Path) -> str:
    """Return the text of a spec with a first model of what files hold."""
    label = found.tensors.get(found.label or "")
    features = _gathered(found)
    head = _Head.of(label)
    declared: dict[str, ir.Input] = {}
    for each in features:
        kept = each.dtype == "string"
        declared[each.name] = ir.Input("string" if kept else "float32", each.shape)
    tensors = {each.name: each for each in features}
    if label is not None:
        declared[label.name] = ir.Input(head.dtype, head.shape)
        given = (label.given,) if head.shape and found.is_table and not label.shape else label.given
        tensors[label.name] = evolve(label, given=given, shape=head.shape if found.is_table else label.shape)
    lines = [f"{each} = input({made.dtype}, {list(made.shape or ())})" for each, made in declared.items()]
    steps = _convolved() if head.is_mask else _layers(features)
    lines += ["", "# A first model, to begin with.", *steps, *head.lines(label)]
    examples = Fitted(found, tensors, declared).block(folder)
    batch = next((each for each in (32, 16, 8, 4, 2) if each * 8 <= found.count), 1)
    parts = ["tfdeploy = 1", block(f"model {quoted(name)}", lines), examples]
    parts.append(block("clones", [f"batch = {batch}"]))
    parts.append(block("update", ["optimizer = Adam(0.001)"]))
    parts.append(block("train", ["epochs = 5"]))
    return format_text(Source("<spec>", "\n\n".join(parts) + "\n"))


def _gathered(found: Found) -> list[Tensor]:
    """Return the tensors beside the label; many columns of numbers as one."""
    features = [each for name, each in found.tensors.items() if name != found.label]
    numbers = [each for each in features if each.words is None and not each.shape]
    if found.is_table and len(numbers) > FEW_COLUMNS:
        name = free_name("numbers", {each.name for each in found.tensors.values() if each not in numbers})
        vector = joined(numbers, name, found.columns)
        features = [vector, *(each for each in features if each not in numbers)]
    return [
        _as_vector(each) if found.is_table and each.words is None and not each.shape else each
        for each in features
    ]


def _layers(features: list[Tensor]) -> Iterator[str]:
    """Yield bindings that make a vector, `hidden`, of all features."""
    dense = "Dense(64, activation = relu)"
    flows = []
    for each in features:
        scalar = not each.shape and each.words is None
        flows.append((f"{each.name}[:, none]" if scalar else each.name, [*_steps(each)]))
    if len(flows) == 1:
        source, steps = flows[0]
        yield _flow(source, [*steps, dense], "hidden")
        return
    names: list[str] = []
    taken = {each.name for each in features}
    for each, (source, steps) in zip(features, flows, strict=True):
        names.append(free_name(f"{each.name}_vector", taken))
        yield _flow(source, steps, names[-1])
    yield f"hidden = [{', '.join(names)}] -> Concatenate() -> {dense}"


def _convolved() -> Iterator[str]:
    """Yield a binding of features of each pixel of an image, `hidden`."""
    convolution = "Conv2D({}, 3, padding = same, activation = relu)"
    steps = ["Rescaling(1 / 255)", convolution.format(16), convolution.format(32)]
    yield _flow("image", steps, "hidden")


def _steps(tensor: Tensor) -> Iterator[str]:
    """Yield layers that make a vector of a feature."""
    if tensor.words is not None:
        words = ", ".join(map(quoted, tensor.words))
        few = len(tensor.words) <= MOST_WORDS and len(words) < WIDEST
        yield f"StringLookup(vocabulary = [{words}])" if few else "StringLookup(adapt = data.train)"
        yield f"Embedding({len(tensor.words) + 1}, 8)"
        if tensor.shape:
            yield "Flatten()"
        return
    image = tensor.dtype == "uint8" and len(tensor.shape) in (2, 3)
    if not image:
        yield "Normalization(adapt = data.train)"
        if len(tensor.shape) > 1:
            yield "Flatten()"
        return
    yield "Rescaling(1 / 255)"
    if len(tensor.shape) == 2:  # noqa: PLR2004 height and width
        yield f"Reshape({[*tensor.shape, 1]})"
    yield "Conv2D(16, 3, padding = same, activation = relu)"
    if min(tensor.shape[:2]) > 1:
        yield "MaxPooling2D()"
    yield "Conv2D(32, 3, padding = same, activation = relu)"
    yield "GlobalAveragePooling2D()"


@frozen
class _Head:
    """The end of a first model: what it predicts, and the loss."""

    dtype: str
    shape: tuple[int, ...]
    size: int
    classes: int | None
    is_mask: bool = False

    @classmethod
    def of(cls, label: Tensor | None) -> _Head:
        if label is None:
            return cls("", (), 8, None)
        if label.name == "mask" and label.factor != 1:
            return cls("float32", label.shape, 1, None, is_mask=True)
        if label.name == "mask" and label.classes is not None:
            return cls("int32", label.shape, max(2, label.classes), label.classes, is_mask=True)
        if label.words is not None and not label.shape:
            return cls("string", (), len(label.words), len(label.words))
        if label.classes is not None and not label.shape:
            return cls("int32", (), max(2, label.classes), label.classes)
        return cls("float32", label.shape or (1,), prod(label.shape), None)

    def lines(self, label: Tensor | None) -> Iterator[str]:
        """Yield the lines of the prediction, the loss and a metric."""
        if label is None:
            yield f"output = hidden -> Dense({self.size})"
            yield "# What to train for. The label is an input of the model, as each tensor of an example is:"
            yield "# loss = [label, output] -> MeanSquaredError()"
            return
        last = f"Conv2D({self.size}, 1)" if self.is_mask else f"Dense({self.size})"
        if self.classes is None and self.is_mask:
            yield f"logits = hidden -> {last}"
            yield f"loss = [{label.name}, logits] -> BinaryCrossentropy(from_logits = true)"
            metric = f"accuracy = [{label.name}, logits] -> BinaryAccuracy(threshold = 0.0)"
            yield f"metrics {{\n    {metric}\n  }}"
            return
        if self.classes is None:
            yield f"prediction = hidden -> Dense({self.size})"
            yield f"loss = [{label.name}, prediction] -> MeanSquaredError()"
            yield f"metrics {{\n    error = [{label.name}, prediction] -> MeanAbsoluteError()\n  }}"
            return
        number = label.name
        if label.words is not None:
            number = f"{label.name}_number"
            words = ", ".join(map(quoted, label.words))
            step = f"StringLookup(num_oov_indices = 0, vocabulary = [{words}])"
            yield f"{number} = {label.name}\n-> {step}"
        ignored = "" if label.void is None else f", ignore_class = {label.void}"
        yield f"logits = hidden -> {last}"
        yield f"loss = [{number}, logits] -> SparseCategoricalCrossentropy(from_logits = true{ignored})"
        yield f"metrics {{\n    accuracy = [{number}, logits] -> SparseCategoricalAccuracy()\n  }}"
