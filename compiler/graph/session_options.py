"""Session options: those of the `devices` block, and those that a graph of several towers needs."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from compiler.plan import Plan
from compiler.process import cores, intra_op_threads, runs_gpus, threads_sleep


def session_config(plan: Plan, *, served: bool = False, **more: Any) -> tf.compat.v1.ConfigProto:
    """Return the ConfigProto for sessions of the graph of a plan.

    With `--emulate`, each declared device is a logical CPU of this process. TensorFlow's graph optimiser
    works through equal towers one by one and gains nothing on CPUs, so it is only used if there are GPUs.
    Folding and merging of ops is off, so that every op that runs can be found by its name. A session without
    a server has threads of its own: those that all such sessions share are as many as the first of them
    wants, whatever that was for.

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
        **{"use_per_session_threads": not served, **more},
    )
    config.gpu_options.allow_growth = options.allow_growth
    if options.visible is not None:
        config.gpu_options.visible_device_list = ",".join(str(each) for each in options.visible)
    if not runs_gpus(plan):
        # Each CPU has a pool of threads for the parts of ops; several take cores from each other.
        several = cpus > 1 and config.intra_op_parallelism_threads != 1
        config.experimental.disable_thread_spinning = several or threads_sleep(plan)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    return config


def helper_config(**more: Any) -> tf.compat.v1.ConfigProto:
    """Return the ConfigProto for sessions that help to read data or to build a graph.

    They leave GPUs to training, and leave no threads behind. Nothing is optimized, which takes longer than it
    takes to run their graphs.

    Args:
        more: Further fields of the ConfigProto.
    """
    more = {"inter_op_parallelism_threads": 2, **more}
    config = tf.compat.v1.ConfigProto(device_count={"GPU": 0}, use_per_session_threads=True, **more)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    return config


def batches_at_once(plan: Plan) -> int:
    """Return how many batches are evaluated at the same time, so that all cores are busy."""
    threads = intra_op_threads(plan)
    return 1 if threads == 0 else max(1, cores() // threads)
