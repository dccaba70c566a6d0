"""The evaluation tower: the model as it predicts, for batches of any size, on its own device."""

from __future__ import annotations

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.compiled import Evaluation
from compiler.graph.inputs import open_pipe
from compiler.graph.metrics import combine_metric
from compiler.graph.stamp import Bindings, WeightSource, stamp
from compiler.graph.template import Template
from compiler.plan import Tower

SCOPE = "evaluation"


def build_evaluation(assembly: Assembly, template: Template) -> Evaluation:
    """Stamp the evaluation tower, reading the averaged weights where there are any."""
    plan, ledger = assembly.plan, assembly.ledger
    placed = assembly.rulebook.evaluation(plan.towers[0].device)
    pipe_placed = assembly.rulebook.inputs(plan.towers[0])
    pipe = open_pipe(plan.model.inputs, None, pipe_placed, ledger, f"{SCOPE}/input")
    first = plan.towers[0]  # without a rule, a model that is spread over a group is evaluated on that group
    devices = first.devices if placed.why.reason == "default" else (placed.device,)
    tower = Tower(index=0, scope=SCOPE, devices=devices, batch=0, why=placed.why)
    bindings = Bindings(
        tower=tower,
        weights={name: _source(assembly, name) for name in template.weights},
        inputs=pipe.batch,
        role="evaluation",
    )
    (stamped,) = stamp(assembly.graph, [(template, bindings)], assembly.rulebook, ledger)
    with ledger.place(placed, "evaluation"), tf.name_scope(f"{SCOPE}/"):
        count = tf.shape(next(iter(pipe.batch.values())), out_type=tf.int64, name="count")[0]
        metrics = {node.name: combine_metric(node, [stamped]) for node in plan.model.metrics}
    return Evaluation(pipe, stamped.tensor(template.output), stamped.tensor(template.loss), count, metrics)


def _source(assembly: Assembly, name: str) -> WeightSource:
    variable = assembly.variables[name]
    if variable.average is not None:
        return WeightSource(variable.average.handle, variable.slot_place(0))
    return WeightSource(variable.kept.handle, variable.placed())
