"""The reasons for places: the deciding rule as it is written in the spec, and the rules that it overrides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.figures import duration, gathered, plural, share
from compiler.mapping.explanation import Explanation
from compiler.report.view import Ink
from compiler.shards import Shard
from compiler.time.forecast import StepForecast
from dsl import ir
from dsl.diagnostics import Diagnostic, Label, Severity
from dsl.formats.render import human

NAMED = 8
"""The most things placed by one rule that are named."""


def why_text(found: Sequence[Explanation], ink: Ink) -> str:
    """Return the explanations as text, with a paragraph for each rule or default that decided."""
    if len(found) == 1:
        return "".join(f"{line}\n" for line in _single(found[0], ink))
    groups = gathered(((each.decider, each.beaten), each) for each in found)
    paragraphs = [list(_group(members, ink)) for members in groups.values()]
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in paragraphs)


def _single(each: Explanation, ink: Ink) -> Iterator[str]:
    yield f"{ink(each.name, 'bold')} is on {ink(each.requested, 'bold')}"
    yield f"  {_kind(each)}"
    if each.shard is not None:
        yield f"  {_piece(each.shard)} of {each.shard.of}"
    if each.fewer is not None:
        yield f"  {each.fewer}"
    for link in each.chain[1:]:
        yield f"  follows the {link.kind} {link.name}"
    if each.group is not None and each.group.span is not None:
        yield f"  updated by the optimizer of `{each.group.span.text}`"
    if each.frozen is not None:
        source, line = each.frozen.source, each.frozen.begin.line
        yield f"  frozen, so that training does not change it, by line {line} of {source.name}:"
        yield f"    {source.line(line).strip()}"
    yield from _decision(each, ink)


def _group(members: Sequence[Explanation], ink: Ink) -> Iterator[str]:
    noun = "piece" if all(each.shard is not None for each in members) else "op"
    yield ink(f"{plural(len(members), noun)} placed by `{members[0].decider.text}`", "bold")
    shown = [(each.requested, each.name, _link(each)) for each in members[:NAMED]]
    width = max(len(place) for place, _, _ in shown)
    for place, name, link in shown:
        yield f"  {place:{width}}  {name}{link}"
    if len(members) > NAMED:
        yield f"  and {len(members) - NAMED:,} more; plan --ops --filter lists them all"
    yield from _decision(members[0], ink)


def _kind(each: Explanation) -> str:
    role = f"{each.role} op" if each.kind == "op" else "variable"
    clone = f" of clone {each.clone}" if each.clone is not None else ""
    return f"{each.type}, {role}{clone}"


def _link(each: Explanation) -> str:
    if each.shard is not None:
        return f" {_piece(each.shard)}"
    return f" follows {each.chain[1].name}" if len(each.chain) > 1 else ""


def _piece(shard: Shard) -> str:
    """Return the part of a variable that a piece is, in words."""
    along = "rows" if shard.axis == 0 else f"axis {shard.axis}"
    return f"piece {shard.number} of {shard.count}: {along} {shard.start:,}..{shard.stop - 1:,}"


def _decision(each: Explanation, ink: Ink) -> Iterator[str]:
    """Yield the lines of the rule in the spec, or one line about the default."""
    reason, beaten = each.decider, each.beaten
    if reason.rule is None or reason.rule.span is None:
        yield f"  placed by the default `{reason.text}`: no rule matches it"
        return
    labels = [Label(rule.span, "matches too, and comes earlier") for rule in beaten if rule.span is not None]
    yield from frame(reason.rule, tuple(labels), ink)


def frame(rule: ir.Rule, labels: tuple[Label, ...], ink: Ink) -> list[str]:
    """Return the lines of a rule as a diagnostic shows them, without the head of a diagnostic."""
    shown = Diagnostic("", "", rule.span, "placed by this rule", severity=Severity.WARNING, labels=labels)
    (text,) = human([shown], color=ink.color)
    return text.splitlines()[1:]


def why_time(found: Sequence[Explanation], forecast: StepForecast) -> str:
    """Return a line that says whether the things are on the critical path, and for how long.

    Args:
        found: The things. A variable stands for the ops that have its name as scope.
    """
    names = {thing.name for thing in found}
    scopes = tuple(f"{thing.name}/" for thing in found if thing.kind == "variable")
    parts = [each for each in forecast.path if each.name in names or each.name.startswith(scopes)]
    ran = [each for each in parts if each.what == "op"]
    of_step = f"of a step of {duration(forecast.seconds)}{' (an estimate)' if forecast.estimate else ''}"
    if not forecast.path:
        return f"clones update by themselves: there is an update every {duration(forecast.seconds)}\n"
    if not ran:
        return f"not on the critical path {of_step}\n"
    seconds = sum(each.seconds for each in parts)
    said = f"{duration(seconds)} {of_step}, {share(seconds, forecast.seconds)}"
    if len(found) == 1:
        return f"on the critical path: {said}\n"
    return f"{plural(len(ran), 'op')} of these on the critical path: {said}\n"
