"""`SyncReplicasOptimizer` of TensorFlow 1 on processes of its own.

`python -m benchmarks.contenders.sync_replicas MODEL STEPS`: TF_CONFIG says which task a process is. Worker 0
prints the seconds of STEPS steps after as many for warming up. It is an optimizer of graphs with plain
variables, which `replica_device_setter` gives to the servers in turn.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from typing import Any

from benchmarks.contenders.multi_worker import LAYERS, RATE, forward
from benchmarks.contenders.parameter_server import EXAMPLES
from benchmarks.models import PROBLEMS

POLL = 0.1  # seconds between two looks of a worker at the variables of the chief


def train(model: str, steps: int) -> None:
    """Train a model as the task that TF_CONFIG names; a server serves until it is ended.

    Args:
        model: The name of the model.
        steps: The number of steps that are timed, after as many others.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    v1.disable_v2_behavior()
    found = json.loads(os.environ["TF_CONFIG"])
    cluster, job, index = found["cluster"], found["task"]["type"], found["task"]["index"]
    server = tf.distribute.Server(cluster, job_name=job, task_index=index, protocol="grpc")
    if job == "ps":
        server.join()
    problem, workers = PROBLEMS[model], len(cluster["worker"])
    with v1.device(v1.train.replica_device_setter(cluster=cluster, worker_device=f"/job:{job}/task:{index}")):
        step = v1.train.get_or_create_global_step()
        initial = v1.keras.initializers.glorot_uniform(1)
        kernels = [v1.Variable(initial(shape)) for shape in LAYERS[model]]
        biases = [v1.Variable(tf.zeros(shape[-1:])) for shape in LAYERS[model]]
        x, y = _batches(problem)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=forward(kernels, biases, x))
        optimizer = v1.train.SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(RATE), workers, total_num_replicas=workers
        )
        update = optimizer.minimize(tf.reduce_mean(losses), global_step=step)
    chief = index == 0
    # the servers and this task, because workers do not talk to each other
    config = v1.ConfigProto(device_filters=["/job:ps", f"/job:{job}/task:{index}"])
    hook = optimizer.make_session_run_hook(chief)
    if not chief:
        _wait_until_ready(server.target, config)
    with v1.train.MonitoredTrainingSession(
        server.target, is_chief=chief, hooks=[hook], config=config
    ) as session:
        times = []
        # of the global step, because late gradients are dropped; the first worker needs the others to the end
        for end in (steps, 2 * steps) if chief else (math.inf,):
            while int(session.run([update, step])[1]) < end:
                pass
            times.append(time.perf_counter())
        print(json.dumps({"seconds": times[1] - times[0]}), flush=True)
        os._exit(0)


def _wait_until_ready(target: str, config: Any) -> None:
    """Wait until the chief has given all variables their values.

    A session of a worker looks for that every 30 seconds, and until then the chief would train alone.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    missing = v1.report_uninitialized_variables(v1.global_variables())
    with v1.Session(target, config=config) as session:
        while len(session.run(missing)):
            time.sleep(POLL)


def _batches(problem: Any) -> Any:
    """Return the tensors of the next batch."""
    import tensorflow as tf

    with tf.compat.v1.device("/cpu:0"):
        whole = tf.data.Dataset.from_tensor_slices(problem.arrays(EXAMPLES * problem.batch)).cache().repeat()
        batches = whole.batch(problem.batch, drop_remainder=True).prefetch(2)
        return tf.compat.v1.data.make_one_shot_iterator(batches).get_next()


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    train(sys.argv[1], int(sys.argv[2]))
