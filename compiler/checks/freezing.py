"""Check what is frozen or computed again, and which parts start from files, once the names are known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase

from compiler.plan import Plan
from dsl.diagnostics import Diagnostic
from dsl.errors import layers as errors
from dsl.suggest import nearest_paths


def globs_match(plan: Plan, names: Collection[str]) -> Iterator[Diagnostic]:
    """Report globs of `freeze` and of the block `weights` that match no weight, and files for no weights.

    Args:
        plan: The plan, whose spec has the globs.
        names: The paths of all weights of the model, such as `conv1/kernel`.
    """
    update = plan.spec.update
    for glob in update.freeze or ():
        if not _matches(glob, names):
            yield errors.freeze_matches_nothing(
                update.span_of("freeze"), glob=glob, names=nearest_paths(glob, names)
            )
    for rule in plan.spec.train.part_weights:
        if not _matches(rule.pattern, names):
            near = nearest_paths(rule.pattern, names)
            yield errors.part_matches_nothing(rule.span, glob=rule.pattern, file=rule.file, names=near)
    for start in plan.model.starts:
        if not _matches(start.pattern, names):
            yield errors.step_without_weights(start.span, file=start.file)


def recomputation_matches(plan: Plan, layers: Collection[str]) -> Iterator[Diagnostic]:
    """Report a glob of `recompute` that matches no layer; `layers` are the paths of all of them."""
    update = plan.spec.update
    glob = update.recomputed_scopes
    if glob is not None and not _matches(glob, layers):
        yield errors.recompute_matches_nothing(
            update.span_of("recompute"), glob=glob, names=nearest_paths(glob, layers)
        )


def something_is_trained(plan: Plan, trained: Mapping[str, bool]) -> Iterator[Diagnostic]:
    """Report a model all of whose weights are frozen."""
    steps = [each.span for each in plan.model.layers if each.frozen]
    globs = plan.spec.update.freeze
    if not trained or any(trained.values()) or not (steps or globs):
        return
    span = plan.spec.update.span_of("freeze") if globs else steps[0]
    yield errors.everything_frozen(list(trained), span)


def _matches(glob: str, names: Collection[str]) -> bool:
    return any(fnmatchcase(name, glob) for name in names)
