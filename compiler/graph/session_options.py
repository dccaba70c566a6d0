"""Session options: those of the `devices` block, and what a multi-tower graph needs."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from compiler.plan import Plan


def session_config(plan: Plan, **more: Any) -> tf.compat.v1.ConfigProto:
    """Return the ConfigProto for sessions of a graph of `plan`; `more` are further fields of it.

    Under `--emulate` every declared device is a logical CPU of this process. TensorFlow's graph optimiser
    works through K equal towers one by one and gains nothing on CPUs, so it is left on only where GPUs run;
    folding and merging of ops per device is off, so that every op that runs can be found by its name.
    """
    devices, options = plan.topology.devices, plan.spec.devices
    cpus = len(devices) if plan.emulate else len([each for each in devices if each.kind == "cpu"])
    config = tf.compat.v1.ConfigProto(
        device_count={"CPU": cpus},
        allow_soft_placement=options.soft_placement,
        log_device_placement=options.log_placement,
        **more,
    )
    config.gpu_options.allow_growth = options.allow_growth
    if options.visible is not None:
        config.gpu_options.visible_device_list = ",".join(str(each) for each in options.visible)
    if plan.emulate or not plan.topology.select("gpu"):
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    return config
