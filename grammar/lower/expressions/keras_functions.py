"""Signatures of Keras objects, as functions of the language."""

from __future__ import annotations

from functools import cache

from attrs import evolve

from dsl.schema import Argument, Function, Type, signatures
from dsl.schema import types as kinds
from dsl.schema.signatures import SPLITS, STATES


@cache
def keras_function(signature: signatures.Signature) -> Function:
    """Return the function of the language for a Keras signature."""
    arguments = tuple(
        Argument(
            each.name,
            keras_type(each),
            default=each.default,
            required=each.required,
            positional=each.positional,
        )
        for each in signature.arguments
    )
    if signature.category == "layer" and signature.name in STATES:
        adapt = kinds.word(*SPLITS, optional=True)
        arguments = (*arguments, Argument("adapt", adapt, default=None, required=False, positional=False))
    rest = kinds.ANY if signature.variadic else None
    return Function(signature.name, arguments, rest, repeating=signature.repeating)


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


def step_function(function: Function) -> Function:
    """Return the function that makes a layer or model, with the arguments that every step has."""
    own = {each.name for each in function.arguments}
    added = tuple(each for each in STEP_ARGUMENTS if each.name not in own)
    return evolve(function, arguments=(*function.arguments, *added))


@cache
def keras_step(signature: signatures.Signature) -> Function:
    """Return the function that makes a layer or model of Keras."""
    return step_function(keras_function(signature))


def keras_type(argument: signatures.Argument) -> Type:  # noqa: PLR0911 one for each kind
    """Return the type of the language for an argument of a Keras object."""
    optional = argument.nullable
    if argument.kind == "call":
        return kinds.keras(argument.category or "", argument.words, optional=optional)
    if argument.kind == "calls":
        one = kinds.keras(argument.category or "")
        return kinds.either(one, kinds.listing(one), optional=optional)
    if argument.kind == "float" and argument.category is not None:
        schedule = kinds.keras(argument.category, optional=optional)
        return kinds.either(_bounded(Type("float", optional=optional), argument), schedule, optional=optional)
    if argument.kind == "word":
        return kinds.word(*argument.words, optional=optional)
    if argument.kind == "strings":
        return evolve(kinds.listing(kinds.string(filled=True)), optional=optional)
    if argument.kind == "ints":
        return evolve(kinds.listing(_bounded(kinds.integer(optional=True), argument)), optional=optional)
    return evolve(
        _bounded(Type(argument.kind, optional=optional), argument), length=argument.length, only=argument.only
    )


def _bounded(type_: Type, argument: signatures.Argument) -> Type:
    return evolve(type_, low=argument.low, high=argument.high, open=argument.open)
