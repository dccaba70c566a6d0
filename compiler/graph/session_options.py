"""Session options: those of the `devices` block, and those that a graph of several towers needs."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from compiler.plan import Plan
from compiler.process import cores, intra_op_threads, runs_gpus


def session_config(plan: Plan, *, served: bool = False, **more: Any) -> tf.compat.v1.ConfigProto:
    """Return the ConfigProto for sessions of the graph of a plan.

    With `--emulate`, each declared device is a logical CPU of this process. TensorFlow's graph optimiser
    works through equal towers one by one and gains nothing on CPUs, so it is only used if there are GPUs.
    Folding and merging of ops is off, so that every op that runs can be found by its name. The stages of a
    pipeline on CPUs keep all threads busy, and a thread that looks for work in vain for a while would take a
    core from them, so threads sleep at once, and are those of the session alone.

    Args:
        plan: The plan.
        served: Whether the session is one of a server, which refuses sessions with threads of their own.
        more: Further fields of the ConfigProto.
    """
    devices, options = plan.topology.devices, plan.spec.devices
    cpus = len(devices) if plan.emulate else len([each for each in devices if each.kind == "cpu"])
    config = tf.compat.v1.ConfigProto(
        device_count={"CPU": cpus},
        allow_soft_placement=options.soft_placement,
        log_device_placement=options.log_placement,
        intra_op_parallelism_threads=intra_op_threads(plan),
        inter_op_parallelism_threads=options.inter_op_threads or 0,
        **more,
    )
    config.gpu_options.allow_growth = options.allow_growth
    if options.visible is not None:
        config.gpu_options.visible_device_list = ",".join(str(each) for each in options.visible)
    if not runs_gpus(plan):
        is_pipeline = plan.update.schedule is not None
        config.experimental.disable_thread_spinning = is_pipeline
        config.use_per_session_threads = config.use_per_session_threads or (is_pipeline and not served)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    return config


def batches_at_once(plan: Plan) -> int:
    """Return how many batches are evaluated at the same time, so that all cores are busy."""
    threads = intra_op_threads(plan)
    return 1 if threads == 0 else max(1, cores() // threads)
