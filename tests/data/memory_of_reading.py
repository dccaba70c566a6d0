"""Read a split to its end in a process of its own, and print examples, their sum and the peak of memory.

Arguments: the folder of the data, the file, what to wait for: `npz` or `csv`.
"""

import resource
import sys
from pathlib import Path

import tensorflow as tf

from dsl import ir
from tfdeploy.data import Field, StreamOptions, open_split

CALLS = {
    "npz": (ir.Call("npz", ("data.npz",), {"x": "x"}), Field("x", "float32", (16384,))),
    "csv": (ir.Call("csv", ("data.csv",), {"x": "c*"}), Field("x", "float32", (8,))),
}


def main(folder: str, kind: str, batch: int) -> None:
    """Read batches through a shuffle, as training does."""
    source, wanted = CALLS[kind]
    split = ir.Split("train", source, (ir.Call("shuffle", (64,)),))
    stream = open_split(split, [wanted], StreamOptions(Path(folder), seed=1))
    stream.check()
    with tf.Graph().as_default():
        dataset = stream.batches(batch, repeat=False, drop_remainder=False)
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        following = iterator.get_next()["x"]
        parts = [tf.shape(following)[0], tf.reduce_sum(following)]
        count, total = 0, 0.0
        with tf.compat.v1.Session() as session:
            session.run(iterator.initializer)
            step = session.make_callable(parts)
            try:
                while True:
                    some, amount = step()
                    count, total = count + int(some), total + float(amount)
            except tf.errors.OutOfRangeError:
                pass
    assert count == stream.size
    print(count, total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)  # noqa: T201 the result


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
