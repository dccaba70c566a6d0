"""Completion in a shell: the words that fit at the cursor, and the protocol with bash.

click's own script for bash uses the words as bash splits them, also at `=` and `:`, and offers no names of
files if nothing else is known. The script here handles both.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

SCRIPT = """\
%(complete_func)s() {
    local IFS=$'\\n' response kind value
    local typed="${COMP_WORDS[COMP_CWORD]}"
    response=$(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \
%(complete_var)s=bash_complete "$1")
    for line in $response; do
        IFS=',' read -r kind value <<< "$line"
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            part) COMPREPLY+=("$value"); compopt -o nospace ;;
            ending) COMPREPLY+=($(compgen -f -X "!*$value" -- "$typed")); compopt -o filenames ;;
            dir) COMPREPLY+=($(compgen -d -- "$typed")); compopt -o filenames ;;
        esac
    done
    return 0
}

complete -o nosort -o default -F %(complete_func)s %(prog_name)s
"""
OPEN_ENDS = ("=", "(", "/")
"""What a completion ends with if more of the word is to come."""


class Bash(BashComplete):
    """Completion in bash, from the line up to the cursor and the characters at which bash splits words."""

    source_template = SCRIPT
    kept = ""
    """What bash takes to be an earlier word, and so keeps: `update.mode=` of `update.mode=sy`."""
    quoted = False

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is being typed, and that one."""
        line = os.environ["COMP_LINE"]
        words, self.quoted = split_arg_string(line), _is_open(line)
        fresh = not self.quoted and line[-1:].isspace() and not line.endswith("\\ ")
        typed = "" if fresh or not words else words.pop()
        breaks = set("=:") & set(os.environ["COMP_WORDBREAKS"]) if not self.quoted else set()
        self.kept = typed[: 1 + max((typed.rfind(each) for each in breaks), default=-1)]
        return words[1:], typed

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the lines that the script reads."""
        if item.type == "file":
            endings = item.endings or ("",)
            return "\n".join([*(f"ending,{each}" for each in endings), "dir,"])
        if item.type != "plain":
            return f"{item.type},"
        kind = "part" if item.value.endswith(OPEN_ENDS) else "plain"
        value = item.value.removeprefix(self.kept)
        return f"{kind},{value if self.quoted else _escaped(value)}"


def install() -> None:
    """Register the class for bash."""
    add_completion_class(Bash, "bash")


def script(shell: str, program: str) -> str:
    """Return what a shell reads to complete the command lines of a program."""
    install()
    kind = get_completion_class(shell)
    assert kind is not None
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    return kind(click.Command(program), {}, program, variable).source().strip("\n") + "\n"


def _is_open(line: str) -> bool:
    """Whether a quote of a line is not closed."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        list(lexer)
    except ValueError:
        return getattr(lexer, "state", None) in {"'", '"'}
    return False


def _escaped(value: str) -> str:
    """Return `value` as it is typed outside of quotes."""
    return re.sub(r"[^\w@%+=:,./*-]", r"\\\g<0>", value)


# --- what is offered --------------------------------------------------------------------------------------


def _files(*endings: str) -> Callable[[click.Context, str], list[CompletionItem[str]]]:
    """Return what offers files with some endings, or all of them, and folders."""
    return lambda _, typed: [CompletionItem(typed, "file", endings=endings)]


specs, specs_or_maps, files = _files(".tfdeploy"), _files(".tfdeploy", ".json"), _files()


def codes(_: click.Context, typed: str) -> list[str]:
    """Offer the codes of diagnostics; those that begin with a small letter by their names."""
    from dsl.codes import CODES

    by_name = typed[:1].islower() and not typed.startswith("tfd")
    known = [each.name if by_name else each.code for each in CODES.values()]
    return [each for each in known if each.lower().startswith(typed.lower())]


def template_names(_: click.Context, typed: str) -> list[str]:
    """Offer the templates of `init`."""
    from tfdeploy.templates import templates

    return [each for each in templates() if each.startswith(typed)]


def overrides(_: click.Context, typed: str) -> list[str]:
    """Offer `PATH=` and `PATH=VALUE` as `--set` takes them."""
    from dsl.schema.vocabulary import override_completions

    return list(override_completions(typed))


def names(ctx: click.Context, typed: str) -> list[str]:
    """Offer ops and variables of the map that the last run of the spec has left, a scope at a time."""
    try:
        given = ctx.params.get("spec") or ctx.args[0]  # an option without its value leaves arguments unread
        found = _names_of_map(str(given))
    except Exception:  # noqa: BLE001 whatever is wrong with a file, completion must not write over the line
        return []
    return list(dict.fromkeys(_up_to_the_next_scope(found, typed)))


def _names_of_map(path: str) -> list[str]:
    """Return the names in the map at `path`, or in the run directory of the spec at `path`."""
    from tfdeploy.cli.files import map_file, read_map

    file = map_file(path)
    if file is None:
        import grammar
        from tfdeploy.runtime.records.directory import RunDirectory

        spec = grammar.read(path).spec
        if spec is None:
            return []
        file = str(RunDirectory.of(spec).placement)
    placement = read_map(file)
    variables = [each.name for each in placement.variables_like]
    return variables + [each.first for each in placement.counted()]


def _up_to_the_next_scope(found: Iterable[str], typed: str) -> Iterator[str]:
    for name in found:
        if name.startswith(typed):
            end = name.find("/", len(typed))
            yield name if end < 0 else name[: end + 1]
