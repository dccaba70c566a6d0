"""The syntax file of Vim and Neovim."""

from __future__ import annotations

from collections.abc import Iterable

from dsl.schema import vocabulary
from dsl.values import UNITS

HEAD = """\
" Vim syntax file of specs of tfdeploy.
" Written by `python -m tools.make_editors`; change the tables that it reads, not this file.

if exists("b:current_syntax")
  finish
endif

syntax case match
syntax iskeyword @,48-57,_

"""
PATTERNS = """\
syntax match tfdeployName /\\<[A-Za-z_]\\w*\\>/
syntax match tfdeployFunction /\\<[A-Za-z_]\\w*\\ze(/
syntax match tfdeployOperator /->\\|<=\\|>=\\|==\\|\\.\\.\\|[-+*\\/=<>]/
syntax match tfdeployNumber /\\<\\d[0-9_]*\\(\\.\\d[0-9_]*\\)\\?\\([eE][-+]\\?\\d\\+\\)\\?\\(\\s*\\(%\\|\\({units}\\)\\>\\)\\)\\?/
syntax match tfdeployBlock /\\<\\({blocks}\\)\\>\\ze\\s*\\("[^"]*"\\)\\?\\s*=\\?\\s*{{/
syntax match tfdeployAttribute /^\\s*\\zs\\({attributes}\\)\\>\\ze\\s*==\\@!/
syntax match tfdeployBuiltin /\\<\\({functions}\\)\\ze(/
syntax region tfdeployString start=/"/ skip=/\\\\./ end=/"/ oneline
syntax match tfdeployComment /#.*$/ contains=tfdeployTodo
syntax keyword tfdeployTodo TODO FIXME contained

highlight default link tfdeployBlock Structure
highlight default link tfdeployAttribute Identifier
highlight default link tfdeployBuiltin Special
highlight default link tfdeployFunction Function
highlight default link tfdeployLiteral Boolean
highlight default link tfdeployWord Constant
highlight default link tfdeployNumber Number
highlight default link tfdeployOperator Operator
highlight default link tfdeployString String
highlight default link tfdeployComment Comment
highlight default link tfdeployTodo Todo

let b:current_syntax = "tfdeploy"
"""


def syntax() -> str:
    """Return the text of `syntax/tfdeploy.vim`."""
    literals = f"syntax keyword tfdeployLiteral {' '.join(vocabulary.LITERALS)}\n"
    # As keywords, names of blocks and functions would win over the patterns that look at what follows them.
    plain = set(vocabulary.blocks()) | set(vocabulary.functions())
    constants = "".join(
        f"syntax keyword tfdeployWord {each}\n" for each in vocabulary.constants() if each not in plain
    )
    patterns = PATTERNS.format(
        units=_any(sorted((unit for unit in UNITS if unit != "%"), key=lambda unit: -len(unit))),
        blocks=_any(vocabulary.blocks()),
        attributes=_any(vocabulary.attributes()),
        functions=_any(vocabulary.functions()),
    )
    return f"{HEAD}{literals}{constants}{patterns}"


def _any(words: Iterable[str]) -> str:
    return r"\|".join(words)
