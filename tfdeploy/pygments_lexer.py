"""A lexer for Pygments, which colours specs in documentation, notebooks and terminals."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Whitespace,
)

from dsl.schema import BLOCKS, ROOT_ATTRIBUTES
from dsl.schema.vocabulary import constants, functions
from dsl.values import UNITS

__all__ = ["TfdeployLexer"]

_UNITS = "|".join(sorted((unit for unit in UNITS if unit != "%"), key=len, reverse=True))


class TfdeployLexer(RegexLexer):  # type: ignore[misc] # Pygments has no types
    """Colours specs. A character that the language does not have is an error token."""

    name = "tfdeploy"
    aliases = ("tfdeploy",)
    filenames = ("*.tfdeploy",)
    tokens = {  # noqa: RUF012  as Pygments wants it
        "root": [
            (r"\s+", Whitespace),
            (r"#[^\n]*", Comment.Single),
            (r'"(\\[^\n]|[^"\\\n])*"', String.Double),
            (
                rf'({"|".join(BLOCKS)})(\s*)("[^"\n]*"|)(\s*)(=?)(\s*)(?=\{{)',
                bygroups(Keyword.Declaration, Whitespace, Name.Class, Whitespace, Operator, Whitespace),
            ),
            (words(("true", "false", "none"), prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (
                words(tuple(each.name for each in ROOT_ATTRIBUTES), prefix=r"\b", suffix=r"(?=[ \t]*=(?!=))"),
                Keyword.Namespace,
            ),
            (
                rf"\d[\d_]*(\.\d[\d_]*)?([eE][-+]?\d[\d_]*)?([ \t]*(%|({_UNITS})(?!\w)))?",
                Number,
            ),
            (r"->|<=|>=|==|\.\.\.|\.\.|[-+*/=<>]", Operator),
            (words(functions(), prefix=r"\b", suffix=r"(?=\()"), Name.Builtin),
            (r"[A-Za-z_]\w*(?=(\.[A-Za-z_]\w*)*\()", Name.Function),
            (r"[A-Za-z_]\w*(?=[ \t]*=(?!=))", Name.Attribute),
            (words(constants(), prefix=r"\b", suffix=r"\b(?!\[)"), Name.Constant),
            (r"[A-Za-z_]\w*", Name),
            (r"[()\[\]{},.:]", Punctuation),
        ]
    }
