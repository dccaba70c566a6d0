"""From a plan to a graph: trace the tower, place the variables, stamp the clones, join them."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.compiled import Clone, CompiledGraph
from compiler.graph.evaluation import build_evaluation
from compiler.graph.inputs import InputPipe, open_pipe, split_batch
from compiler.graph.ledger import Ledger
from compiler.graph.metrics import combine_metric
from compiler.graph.numerics.regularize import regularization_loss, with_regularizers
from compiler.graph.optimizers import Optimizer, make_optimizer
from compiler.graph.randomness import draw_seed, tower_seed
from compiler.graph.stamp import Bindings, stamp
from compiler.graph.summaries import build_summaries
from compiler.graph.template import Template, WeightInfo
from compiler.graph.trace import Tracer
from compiler.graph.update import UPDATE_MODES
from compiler.graph.variables import create_variable, create_variables, place_variables
from compiler.graph.verify_placement import verify_placement
from compiler.plan import Plan
from compiler.rules import Rulebook
from dsl.diagnostics import SpecError
from dsl.errors import plan as errors


def compile_graph(plan: Plan, *, base: str = ".", seed: int | None = None) -> CompiledGraph:
    """Return the graph of a plan.

    `base` is the folder in which `python(...)` looks for modules first. `seed` counts where the spec gives
    none; one is drawn where neither does. Raises SpecError with a span where Keras refuses a layer, a shape
    or an argument.
    """
    chosen = next((each for each in (plan.spec.train.seed, seed) if each is not None), None)
    seed = draw_seed() if chosen is None else chosen
    optimizer = make_optimizer(plan.update.optimizer) if plan.update.optimizer is not None else None
    tracer = Tracer(plan.model, seed, plan.update.precision, base)
    templates = {
        batch: tracer.trace(batch, training=True) for batch in dict.fromkeys(t.batch for t in plan.towers)
    }
    evaluation = tracer.trace(None, training=False)
    weights = with_regularizers(tracer.weights, plan.model.regularize)
    _require_gradients(plan, weights, templates)
    with tf.Graph().as_default():
        assembly = _assemble(plan, weights, optimizer, seed)
        pipe = _stamp_towers(assembly, templates, seed)
        return _finish(assembly, pipe, evaluation, weights, seed)


def _require_gradients(
    plan: Plan, weights: Mapping[str, WeightInfo], templates: Mapping[int, Template]
) -> None:
    if not any(template.gradients for template in templates.values()):
        trainable = [each.name for each in weights.values() if each.trainable]
        raise SpecError([errors.no_gradient(trainable, plan.spec.model.span_of("loss"))])


def _assemble(
    plan: Plan, weights: Mapping[str, WeightInfo], optimizer: Optimizer | None, seed: int
) -> Assembly:
    """Make the variables and the global step."""
    graph = tf.compat.v1.get_default_graph()
    graph.seed = seed
    rulebook = Rulebook(plan.spec.place.rules, plan.topology)
    ledger = Ledger(plan)
    step_place = rulebook.global_step()
    global_step = create_variable("global_step", lambda: tf.constant(0, tf.int64), step_place, ledger)
    graph.add_to_collection(tf.compat.v1.GraphKeys.GLOBAL_STEP, global_step)
    slots = optimizer.slot_specs() if optimizer is not None else ()
    averaged = plan.update.ema is not None
    placements = place_variables(weights, plan, rulebook, len(slots) + averaged)
    variables = create_variables(weights, placements, slots, ledger, averaged=averaged)
    return Assembly(plan, graph, rulebook, ledger, variables, global_step, step_place, optimizer)


def _stamp_towers(assembly: Assembly, templates: Mapping[int, Template], seed: int) -> InputPipe:
    """Read inputs, cut them up, and stamp a tower for each clone."""
    plan = assembly.plan
    pipe = open_pipe(
        plan.model.inputs, plan.global_batch, assembly.rulebook.inputs(), assembly.ledger, "input"
    )
    pieces = split_batch(pipe, [tower.batch for tower in plan.towers])
    stamps = []
    for tower, piece, share in zip(plan.towers, pieces, assembly.shares, strict=True):
        template = templates[tower.batch]
        bindings = Bindings(
            tower=tower,
            weights={name: assembly.variables[name].source(tower.index) for name in template.weights},
            inputs=piece,
            seed=tower_seed(assembly, tower, seed) if template.seed is not None else None,
            scale=share,
            inverse_share=1.0 / share,
        )
        stamps.append((template, bindings))
    assembly.towers = stamp(assembly.graph, stamps, assembly.rulebook, assembly.ledger)
    return pipe


def _finish(
    assembly: Assembly, pipe: InputPipe, evaluation: Template, weights: Mapping[str, WeightInfo], seed: int
) -> CompiledGraph:
    """Join the towers: losses, metrics, update, summaries, evaluation and initialisation."""
    plan, ledger = assembly.plan, assembly.ledger
    data_loss, regularization, total_loss = _losses(assembly)
    with ledger.place(assembly.step_place, "metric"):
        metrics = {node.name: combine_metric(node, assembly.towers) for node in plan.model.metrics}
    train_op = UPDATE_MODES[plan.update.mode](assembly) if assembly.optimizer is not None else None
    rate = _learning_rate(assembly)
    summary_op = build_summaries(assembly, total_loss, rate, metrics)
    evaluated = build_evaluation(assembly, evaluation)
    init_op, after_restore_op = _initialisation(assembly)
    compiled = CompiledGraph(
        plan=plan,
        graph=assembly.graph,
        ledger=ledger,
        weights=weights,
        variables=assembly.variables,
        clones=_clones(assembly),
        global_step=assembly.global_step,
        total_loss=total_loss,
        data_loss=data_loss,
        regularization=regularization,
        metrics=metrics,
        learning_rate=rate,
        train_op=train_op,
        summary_op=summary_op,
        init_op=init_op,
        after_restore_op=after_restore_op,
        saved=_saved(assembly),
        train_input=pipe,
        evaluation=evaluated,
        seed=seed,
    )
    verify_placement(compiled)
    return compiled


def _losses(assembly: Assembly) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the loss over the global batch, the regularisation term, and their sum."""
    plan = assembly.plan
    with assembly.ledger.place(assembly.step_place, "metric"), tf.name_scope("total_loss/"):
        parts = [
            tower.tensor(tower.template.loss) * (tower.tower.batch / plan.global_batch)
            for tower in assembly.towers
        ]
        data_loss = tf.add_n(parts, name="data_loss")
        terms = regularization_loss(assembly.variables.values())
        regularization = (
            tf.add_n(terms, name="regularization") if terms else tf.constant(0.0, name="regularization")
        )
        return data_loss, regularization, tf.add(data_loss, regularization, name="total_loss")


def _learning_rate(assembly: Assembly) -> tf.Tensor | None:
    if assembly.optimizer is None:
        return None
    return assembly.graph.get_tensor_by_name("update/scalars/learning_rate:0")


def _clones(assembly: Assembly) -> tuple[Clone, ...]:
    return tuple(
        Clone(
            index=stamped.tower.index,
            scope=stamped.tower.scope,
            device=stamped.tower.device.ref,
            outputs=stamped.tensor(stamped.template.output),
            loss=stamped.tensor(stamped.template.loss),
        )
        for stamped in assembly.towers
    )


def _saved(assembly: Assembly) -> dict[str, object]:
    """Return the variables of a checkpoint: copy 0 of each, with its slots and average, under plain names."""
    saved = {"global_step": assembly.global_step}
    for variable in assembly.variables.values():
        saved[variable.name] = variable.copies[0]
        for suffix, slots in variable.slots.items():
            saved[f"{variable.name}/{suffix}"] = slots[0]
        if variable.average is not None:
            saved[f"{variable.name}/ExponentialMovingAverage"] = variable.average
    return saved


def _initialisation(assembly: Assembly) -> tuple[tf.Operation, tf.Operation]:
    """Return the op that initialises every variable, and the one that makes copies equal to copy 0 again."""
    made = [assembly.global_step]
    copying = []
    for variable in assembly.variables.values():
        families = [variable.copies, *variable.slots.values()]
        made += [each for family in families for each in family]
        made += [variable.average] if variable.average is not None else []
        for family in families:
            for copy, target in enumerate(family[1:], start=1):
                with assembly.ledger.place(variable.beside(copy), "init"), tf.name_scope("restore/"):
                    copying.append(
                        tf.raw_ops.AssignVariableOp(resource=target.handle, value=family[0].read_value())
                    )
    with assembly.ledger.place(assembly.step_place, "init"):
        return tf.group(*[each.initializer for each in made], name="init"), tf.group(
            *copying, name="after_restore"
        )
