"""From a plan to a graph: trace the tower, place the variables, stamp the clones, join them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import RLock

import tensorflow as tf
from attrs import evolve

from compiler.checks.compatibility import gradients_can_be_summed
from compiler.checks.rules import (
    globs_match,
    recomputation_matches,
    rules_decide,
    rules_match,
    rules_place,
    something_is_trained,
)
from compiler.graph.adapters.tensorflow_private import without_op_callbacks
from compiler.graph.assembly import Assembly
from compiler.graph.compiled import Clone, CompiledGraph, TrainLoop
from compiler.graph.feeding import Feeds, feed_towers, measure_waits
from compiler.graph.finished import in_graph
from compiler.graph.gradients.regularize import with_regularizers
from compiler.graph.gradients.weighting import tower_loss
from compiler.graph.inspect.room import require_holdable
from compiler.graph.inspect.verify_placement import require_own_devices, verify_placement
from compiler.graph.ledger import Ledger
from compiler.graph.loss_scale import LossScale
from compiler.graph.optimizers import UpdateRules, make_groups
from compiler.graph.optimizers.divisible import require_divisible, require_divisible_parts
from compiler.graph.optimizers.groups import assign_rules, tables_dominate
from compiler.graph.randomness import draw_seed, tower_seed
from compiler.graph.recomputation import Segments, below_limit, recompute
from compiler.graph.saved import initialisation, saved_copies, saved_variables
from compiler.graph.scores import build_evaluation, combine_metric, scores_of, scores_of_all
from compiler.graph.size import Measures, require_small_enough
from compiler.graph.stamp.lookups import usage_of
from compiler.graph.stamp.stages import warn_of_one_stage
from compiler.graph.stamp.stamp import Bindings, StampedTower, stamp
from compiler.graph.step_of import step_of
from compiler.graph.summaries import build_summaries, read_weights
from compiler.graph.tower.network.keras_scope import own_names
from compiler.graph.tower.network.precision import keras_settings
from compiler.graph.tower.recompute import Forward, scopes_of
from compiler.graph.tower.template import Template, WeightInfo
from compiler.graph.tower.traces import Traced, Traces, templates_of_towers
from compiler.graph.update import UPDATE_MODES, Updates
from compiler.graph.variables.variables import (
    create_variable,
    create_variables,
    cut_weights,
    part_infos,
    place_variables,
)
from compiler.graph.workers.replicas import Joined, join_workers
from compiler.graph.workers.updates import build_between
from compiler.model.layer_state import with_vocabularies
from compiler.pipeline import for_worker
from compiler.placement.rules import Rulebook
from compiler.plan import Plan, WorkerPlan
from compiler.process import collector_paused
from compiler.reasons import Placed
from compiler.step.record import Tensor
from compiler.step.writer import Spot
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors
from dsl.errors.layers import undeclared_state

_ONE_AT_A_TIME = RLock()
"""Held while a step is compiled: what Keras and TensorFlow keep for a whole process is changed meanwhile."""


def compile_graph(
    plan: Plan, *, base: str = ".", seed: int | None = None, traces: Traces | None = None
) -> CompiledGraph:
    """Return the graph of a plan, which sessions can run.

    Args:
        plan: The plan.
        base: The folder in which `python(...)` looks for modules first, and from which files start.
        seed: The seed if the spec gives none, as for `compile_step`.
        traces: Traced towers that may be used again, as for `compile_step`.

    Raises:
        SpecError: That of `compile_step`.
    """
    with collector_paused():
        return in_graph(compile_step(plan, base=base, seed=seed, traces=traces))


def compile_step(
    plan: Plan, *, base: str = ".", seed: int | None = None, traces: Traces | None = None
) -> CompiledGraph:
    """Return a plan compiled to the records of a step, of which there is no graph yet.

    Args:
        plan: The plan.
        base: The folder in which `python(...)` looks for modules first, and from which files start.
        seed: The seed if the spec gives none. If both are missing, a seed is drawn.
        traces: Traced towers that may be used again. Towers that they lack are added to them.

    Raises:
        SpecError: Keras refuses a layer, a shape or an argument. The diagnostic has its span.
    """
    chosen = next((each for each in (plan.spec.train.seed, seed) if each is not None), None)
    traces = traces or Traces(base)
    plan = evolve(plan, model=with_vocabularies(plan.model, Path(traces.base)))
    seed, limit = draw_seed() if chosen is None else chosen, plan.update.recompute_limit
    precision = plan.update.precision
    with _ONE_AT_A_TIME, collector_paused(), own_names(), keras_settings(precision), without_op_callbacks():
        if limit is None:
            return _compile(plan, seed, traces)
        templates = traces.of(plan, seed).templates
        return below_limit(limit, templates, lambda segments: _compile(plan, seed, traces, segments))


def _compile(plan: Plan, seed: int, traces: Traces, segments: Segments = ()) -> CompiledGraph:
    groups = make_groups(plan.update, traces.base)
    traced = traces.of(plan, seed)
    weights = with_regularizers(traced.weights, plan.model.regularize, traces.base)
    require_holdable(plan, weights)
    _require_gradients(plan, weights, traced.templates)
    plan, templates = recompute(plan, traced.templates, segments)
    traced = evolve(traced, templates=templates)
    warnings = _check_rules(plan, weights, traced.templates)
    rules = assign_rules(groups, weights) if groups else None
    if rules is not None:
        tables = _sparse(traced.templates)
        plan = evolve(plan, tables_dominate=tables_dominate(weights, tables, rules, plan.own_batch))
    assembly = _assemble(Ledger(plan, seed), weights, rules, traced)
    joined = None
    if isinstance(plan, WorkerPlan) and plan.keeps_all and any(e.exchanges for e in templates.values()):
        joined = join_workers(assembly, plan)
    feeds = _stamp_towers(assembly, traced.templates, seed, joined)
    if plan.update.schedule is not None:
        first = assembly.towers[0]
        warnings += warn_of_one_stage(plan, first.layout.stages(first.tower))
    compiled = _finish(assembly, feeds, traced.evaluation, weights, seed, joined)
    verify_placement(compiled)
    require_own_devices(compiled)
    found = (*plan.warnings, *warnings)
    compiled = evolve(compiled, warnings=(*found, *_idle_rules(compiled, found)))
    if plan.model.is_free:
        sized = evolve(plan, model=plan.model.assumed)
        compiled = evolve(compiled, assumed=cache(lambda: _compile(sized, seed, traces, segments)))
    if not (isinstance(plan, WorkerPlan) and plan.keeps_all):
        return compiled
    plans = [for_worker(plan, worker) for worker in range(plan.worker.count)]
    return evolve(compiled, everyone=lambda: [_compile(each, seed, traces, segments) for each in plans])


def _require_gradients(
    plan: Plan, weights: Mapping[str, WeightInfo], templates: Mapping[int, Template]
) -> None:
    unusable = [*globs_match(plan, list(weights))]
    unusable += something_is_trained(plan, {name: each.trainable for name, each in weights.items()})
    if plan.update.recomputed_scopes is not None:
        names = {name for each in templates.values() for name in Forward(each).ops}
        unusable += recomputation_matches(plan, {scope for name in names for scope in scopes_of(name)})
    if unusable:
        raise SpecError(unusable)
    if not any(any(template.gradients) for template in templates.values()):
        trainable = [each.name for each in weights.values() if each.trainable]
        raise SpecError([errors.no_gradient(plan.spec.model.span_of("loss"), variables=trainable[:5])])
    given = sorted({name for each in templates.values() for name in each.given_weights})
    found = list(gradients_can_be_summed(plan.spec, _sparse(templates), given))
    if found:
        raise SpecError(found)


def _sparse(templates: Mapping[int, Template]) -> list[str]:
    """Return the names of the weights whose gradients are rows."""
    parts = [part for template in templates.values() for part in template.losses]
    found = [name for part in parts for name, each in part.gradients.items() if each.indices is not None]
    return list(dict.fromkeys(found))


def _check_rules(
    plan: Plan, weights: Mapping[str, WeightInfo], templates: Mapping[int, Template]
) -> tuple[Diagnostic, ...]:
    """Refuse rules whose globs match no weight or op; return a warning for each rule that never decides."""
    ops = {name for template in templates.values() for name in template.op_names}
    trainable = [each.name for each in weights.values() if each.trainable]
    names = {"variables": list(weights), "slots": trainable, "ops": ops}
    found = list(rules_match(plan.spec.place.rules, names))
    if found:
        raise SpecError(found)
    return (*rules_decide(plan.spec.place.rules, names), *_undeclared_states(plan, weights, templates))


def _idle_rules(compiled: CompiledGraph, found: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield a warning for each rule that is the reason of no op, and that `found` does not warn of.

    If every worker has a graph of its own, that of the chief has everything that rules place.
    """
    if isinstance(compiled.plan, WorkerPlan) and not compiled.plan.worker.is_chief:
        return
    places = {id(each.placed): each.placed for each in compiled.ledger.entries.values()}
    reasons = {id(each.reason): each.reason for each in places.values()}
    deciding = {id(each.rule): each.rule for each in reasons.values() if each.rule is not None}
    told = {each.span for each in found if each.code == "TFD604"}
    for each in rules_place(compiled.plan.spec, deciding.values()):
        if each.span not in told:
            yield each


def _undeclared_states(
    plan: Plan, weights: Mapping[str, WeightInfo], templates: Mapping[int, Template]
) -> Iterator[Diagnostic]:
    """Yield a warning for each state of a layer of the user's that several clones change, each otherwise."""
    if len(plan.towers) == 1 and not (isinstance(plan, WorkerPlan) and plan.worker.count > 1):
        return
    given = {name for each in templates.values() for name in each.given_weights}  # those of clone 0 hold
    for name in dict.fromkeys(name for each in templates.values() for name in each.state_updates):
        info = weights[name]
        if info.of_class and info.declared is None:
            nodes = (each for each in plan.model.layers if name.startswith(f"{each.path}/"))
            span = next((each.span for each in nodes), None)
            first = name in given or info.joined(plan.update.batch_norm) == "first"
            yield undeclared_state(span, layer=info.of_class, state=name, first=first)


def _by_rows(plan: Plan, traced: Traced) -> frozenset[str]:
    """Return the weights of which clones get whole rows if each updates a part: tables that are looked up."""
    if not any(isinstance(each.target, ir.OverClones) for each in plan.spec.place.rules):
        return frozenset()
    templates = [*traced.templates.values(), traced.evaluation]
    found = {each.weight for template in templates for each in usage_of(template).lookups.values()}
    return frozenset({*found, *_sparse(traced.templates)})


def _assemble(
    ledger: Ledger,
    weights: Mapping[str, WeightInfo],
    rules: UpdateRules | None,
    traced: Traced,
) -> Assembly:
    """Make the variables and the global step, unless the whole graph would be too large."""
    plan = ledger.plan
    rulebook = Rulebook(plan.spec.place.rules, plan.topology)
    weights = cut_weights(weights, rulebook)
    require_divisible(plan, rulebook, weights, rules)
    rules = rules.for_pieces(weights) if rules is not None else None
    step_place = rulebook.global_step()
    global_step = create_variable("global_step", lambda: tf.constant(0, tf.int64), step_place, ledger)
    slots = {name: rule.slot_specs() for name, rule in rules.weights.items()} if rules is not None else {}
    averaged = plan.update.averaging is not None
    placements = place_variables(weights, slots, plan, rulebook, _by_rows(plan, traced))
    if rules is not None:
        counts = {name: len(each) for name, each in slots.items()}
        sparse = _sparse(traced.templates)
        require_small_enough(plan, Measures(placements, counts, traced.templates, sparse))
    parts = part_infos(weights, placements)
    if parts and rules is not None:
        require_divisible_parts(plan, rulebook, parts, rules)
        rules = rules.with_parts(parts)
        slots |= {name: rules.of(name).slot_specs() for name in parts}
    variables = create_variables(
        weights, placements, slots, ledger, averaged=averaged, separate=plan.update.mode == "local"
    )
    scaled = plan.update.precision == "mixed_float16" and rules is not None
    apart = ledger.entries.items() if isinstance(plan, WorkerPlan) else ()
    abroad = {name for name, each in apart if plan.is_abroad(each.device)}
    return Assembly(
        plan,
        rulebook,
        ledger,
        variables,
        global_step,
        step_place,
        rules,
        loss_scale=LossScale.create(step_place, ledger) if scaled else None,
        abroad=frozenset(abroad),
    )


def _stamp_towers(
    assembly: Assembly, templates: Mapping[int, Template], seed: int, joined: Joined | None
) -> Feeds:
    """Read inputs, split them, and stamp a tower for each clone."""
    plan, scale = assembly.plan, assembly.loss_scale
    feeds = feed_towers(assembly)
    stamps = []
    of_towers = templates_of_towers(plan, templates)
    for tower, share, template in zip(plan.towers, assembly.shares, of_towers, strict=True):
        bindings = Bindings(
            tower=tower,
            weights={name: assembly.source_of(name, tower.index) for name in template.weights},
            inputs=feeds.pieces[tower.index],
            seed=tower_seed(assembly, tower, seed) if template.seed is not None else None,
            scale=scale.times(share / plan.micro_batches, tower.index)
            if scale is not None
            else share / plan.micro_batches,
            inverse_share=plan.micro_batches / share,
            micro_batches=plan.micro_batches,
        )
        stamps.append((template, bindings))
    gather = None if joined is None else joined.between.gather
    assembly.towers = stamp(stamps, assembly.rulebook, assembly.ledger, gather)
    return feeds


def _finish(
    assembly: Assembly,
    feeds: Feeds,
    evaluation: Template,
    weights: Mapping[str, WeightInfo],
    seed: int,
    joined: Joined | None,
) -> CompiledGraph:
    """Join the towers: losses, metrics, update, summaries, evaluation and initialisation."""
    plan, ledger = assembly.plan, assembly.ledger
    scores, exchange, updates = scores_of(assembly), None, Updates()
    shown = read_weights(assembly)
    if assembly.rules is not None and isinstance(plan, WorkerPlan):
        exchange = build_between(assembly, plan, scores.losses, scores.states, joined)
        if exchange.losses:
            scores = scores_of_all(assembly, scores, exchange.losses, exchange.states)
        updates = exchange.updates
    elif assembly.rules is not None:
        updates = UPDATE_MODES[plan.update.mode](assembly)
    measure_waits(feeds, updates.by_clone or tuple(filter(None, (updates.train_op,))))
    loops = _loops(assembly, updates, scores.regularization, feeds)
    watched = (loops[0].loss, loops[0].metrics) if loops else (scores.total_loss, scores.metrics)
    clones = tuple(_clone(assembly, each) for each in assembly.towers)
    parts = _parts_of_loss(plan, clones, scores.regularization)
    summary_op = build_summaries(assembly, watched[0], watched[1], parts, updates, shown)
    before = len(ledger.written)
    evaluated = build_evaluation(assembly, evaluation, scores)
    init_op, after_restore_op, after_apart_op = initialisation(assembly)
    if exchange is not None and exchange.keeps_apart:  # averages of parts, and counts of the steps of parts
        others = {each for each in ledger.names_since(before) if plan.is_abroad(ledger.entries[each].device)}
        exchange = evolve(exchange, abroad=exchange.abroad | others)
    return CompiledGraph(
        plan=plan,
        ledger=ledger,
        weights=weights,
        variables=assembly.variables,
        clones=clones,
        global_step=assembly.global_step,
        total_loss=scores.total_loss,
        data_loss=scores.data_loss,
        losses=scores.losses,
        regularization=scores.regularization,
        metrics=scores.metrics,
        learning_rates=updates.learning_rates,
        loss_scale=assembly.loss_scale.value if assembly.loss_scale is not None else None,
        applied=assembly.applied,
        train_op=updates.train_op,
        train_loops=loops,
        publish_op=updates.publish_op,
        summary_op=summary_op,
        init_op=init_op,
        after_restore_op=after_restore_op,
        after_apart_op=after_apart_op,
        saved=saved_variables(assembly),
        copies=saved_copies(assembly) if exchange is None else exchange.kept,
        train_inputs=tuple(feeds.pipes),
        exchange=exchange,
        evaluation=evaluated,
        seed=seed,
        read=step_of,
    )


def _loops(
    assembly: Assembly, updates: Updates, regularization: Tensor, feeds: Feeds
) -> tuple[TrainLoop, ...]:
    """Return what each clone repeats if each updates by itself, else nothing."""
    loops: list[TrainLoop] = []
    for tower, op in zip(assembly.towers, updates.by_clone, strict=False):
        scope = f"clone_{tower.tower.index}/metrics"
        at = Spot(assembly.ledger.writer("metric"), scope, assembly.rulebook.optimizer())
        metrics = {node.name: combine_metric(at, node, [tower]) for node in assembly.plan.model.metrics}
        data_loss = tower_loss(evolve(at, scope=""), tower)
        (loss,) = at.op("AddV2", "loss", data_loss, regularization)
        batch = tower.tower.batch * assembly.plan.micro_batches
        waited = feeds.waits.get(tower.tower.index)
        loops.append(TrainLoop(tower.tower.index, batch, op, loss, data_loss, metrics, waited))
    return tuple(loops)


def _parts_of_loss(plan: Plan, clones: Sequence[Clone], regularization: Tensor) -> dict[str, Tensor]:
    """Return the parts of the loss that a summary shows, by their tags.

    If each clone updates by itself, a summary is of an update of clone 0. If workers make a step together,
    the run in which the chief updates is not that of its own clones.
    """
    shown = clones[:1] if plan.clones_update_alone else clones
    if isinstance(plan, WorkerPlan) and plan.update.mode != "async":
        shown = ()
    return {
        **{f"clone_{each.index}/clone_loss": each.loss for each in shown},
        "regularization_loss": regularization,
    }


def _clone(assembly: Assembly, stamped: StampedTower) -> Clone:
    tower = stamped.tower
    loss = tower_loss(Spot(assembly.ledger.writer("metric"), "", Placed(tower.device, tower.reason)), stamped)
    tensors = [stamped.record(each) for each in stamped.template.outputs]
    outputs = assembly.plan.model.returned(tensors)
    return Clone(tower.index, tower.scope, tower.device.ref, outputs, loss)
