"""Order, epochs, shards and resuming, on a file of the numbers 0 to 99."""

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dsl import ir
from dsl.diagnostics import RunError
from tests.support import refusal_of
from tfdeploy.data import Field, Stream, StreamOptions
from tfdeploy.data.streams.order import Shard
from tfdeploy.data.streams.passes import Examples, Passes, size_of_pass, steps_of
from tfdeploy.data.transforms.changes import Cast, OneHot, Rename
from tfdeploy.data.transforms.images import Mixup, RandomFlip
from tfdeploy.data.transforms.table import Cache, Shuffle, Skip, Take

ALL = list(range(100))
Numbers = Callable[..., Stream]


def test_without_shuffle_examples_come_in_their_order(reader: Any, numbers: Numbers) -> None:
    """One pass gives every example once, in the order of the file, and ends."""
    assert reader.column(numbers(), "n", 7) == ALL


def test_the_last_batch_is_smaller_or_left_out(reader: Any, numbers: Numbers) -> None:
    """A pass of 100 in batches of 32 ends with a batch of 4, unless the remainder is dropped."""
    kept = [len(batch["n"]) for batch in reader.batches(numbers(), 32)]
    dropped = [len(batch["n"]) for batch in reader.batches(numbers(), 32, drop_remainder=True)]
    assert (kept, dropped) == ([32, 32, 32, 4], [32, 32, 32])


def test_batches_of_a_dropped_remainder_have_a_known_size(numbers: Numbers) -> None:
    """Where every batch is full, the graph knows its size."""
    with tf.Graph().as_default():
        spec = numbers().batches(32, repeat=True, drop_remainder=True).element_spec
    assert spec == {"n": tf.TensorSpec([32], tf.int32)}


@pytest.mark.parametrize("buffer", [3, 40, 1000])
def test_an_epoch_visits_every_example_once(reader: Any, numbers: Numbers, buffer: int) -> None:
    """Whatever the buffer of a shuffle, each run of 100 examples holds all 100, in another order."""
    stream = numbers(reader.call("shuffle", buffer), seed=1)
    found = reader.column(stream, "n", 10, repeat=True, most=30)
    epochs = [found[:100], found[100:200], found[200:]]
    assert [sorted(each) for each in epochs] == [ALL, ALL, ALL]
    assert len({tuple(each) for each in [ALL, *epochs]}) == 4


def test_what_follows_a_cache_is_done_in_every_pass(reader: Any, numbers: Numbers) -> None:
    """The cache keeps the examples, and not the order that they get behind it."""
    found = reader.column(
        numbers(reader.call("cache"), reader.call("shuffle", 100), seed=1), "n", 100, repeat=True, most=2
    )
    assert sorted(found[:100]) == sorted(found[100:]) == ALL
    assert found[:100] != found[100:]


def test_a_single_example_is_read_on(reader: Any, numbers: Numbers) -> None:
    """A run over one example goes on after any number of steps; without an example it cannot."""
    last = numbers(reader.call("skip", 99), skip_examples=3)
    assert reader.column(last, "n", 1, repeat=True, most=2) == [99, 99]


def test_epochs_are_exact_where_batches_straddle_them(reader: Any, numbers: Numbers) -> None:
    """A batch size that does not divide the epoch neither drops nor repeats an example."""
    stream = numbers(reader.call("shuffle", 50), seed=1)
    found = reader.column(stream, "n", 32, repeat=True, drop_remainder=True, most=25)
    assert sorted(found) == sorted(ALL * 8)
    assert all(sorted(found[start : start + 100]) == ALL for start in range(0, 800, 100))


def test_the_same_seed_gives_the_same_order(reader: Any, numbers: Numbers) -> None:
    """Two streams of one seed agree; another seed, of the spec or of the shuffle, gives another order."""
    orders = [
        tuple(reader.column(numbers(reader.call("shuffle", 100, **own), seed=seed), "n"))
        for seed, own in [(1, {}), (1, {}), (2, {}), (1, {"seed": 7}), (2, {"seed": 7})]
    ]
    assert orders[0] == orders[1]
    assert orders[3] == orders[4]
    assert len(set(orders)) == 3


def test_a_buffer_takes_no_more_than_there_is(reader: Any, numbers: Numbers) -> None:
    """TensorFlow would take memory for all of it; the order is that of a buffer of as many."""
    take, endless = reader.call("take", 9), reader.call("shuffle", 10**12)
    found = [
        reader.column(numbers(take, shuffle, seed=1), "n", repeat=True, most=9)
        for shuffle in (endless, reader.call("shuffle", 9))
    ]
    assert found[0] == found[1]
    assert sorted(found[0][:9]) == list(range(9))


@pytest.mark.parametrize(
    ("kind", "change"),
    [("csv", "emptied"), ("csv", "shorter"), ("csv", "gone"), ("npz", "emptied"), ("npz", "gone")],
)
def test_files_that_change_end_the_reading(reader: Any, kind: str, change: str) -> None:
    """Passes without examples would follow each other for ever."""
    path = reader.base / f"n.{kind}"

    def write(count: int) -> None:
        if kind == "npz":
            np.savez(path, n=np.arange(count))
        else:
            path.write_text("n\n" + "".join(f"{each}\n" for each in range(count)))

    write(9)
    read = {"n": "n"}
    transforms = reader.call("skip", 3), reader.call("shuffle", 4)
    stream = reader.open(reader.call(kind, path.name, **read), *transforms, wanted={"n": ("int64", ())})
    stream.check()
    assert stream.size == 6
    write(2)
    if change == "emptied":
        path.write_bytes(b"")
    elif change == "gone":
        path.unlink()
    with pytest.raises((tf.errors.OpError, RunError)) as caught:
        reader.batches(stream, 4, repeat=True, most=3)
    found = stream.explain(caught.value)
    assert found.diagnostic.code in {"TFD702", "TFD703", "TFD710"}, found


def test_a_buffer_beyond_the_memory_is_refused_if_the_size_is_unknown(
    reader: Any, numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow takes memory for the whole buffer at once, and the process would be ended without a word."""
    monkeypatch.setattr(Passes, "_size_after", lambda *_: None)
    assert sorted(reader.column(numbers(reader.call("shuffle", 200), seed=1), "n")) == [*range(100)]
    found = refusal_of(lambda: reader.column(numbers(reader.call("shuffle", 10**15), seed=1), "n"))
    assert found.message.startswith("`shuffle` cannot be applied: nobody knows how many examples")


def test_the_seed_of_a_shuffle_is_the_same_in_every_version() -> None:
    """A run goes on in the order in which another version of tfdeploy has begun it."""
    first, second = (
        Shuffle(ir.Call("shuffle", args=(4,))),
        Shuffle(ir.Call("shuffle", args=(4,), kwargs={"seed": 7})),
    )
    passes: Any = SimpleNamespace(seed=5, steps=(first, second))
    assert [Passes._base_seed(passes, each) for each in (first, second)] == [849070098, 1425485342]


def test_without_a_seed_orders_differ_unless_deterministic(reader: Any, numbers: Numbers) -> None:
    """A stream without a seed draws one; a deterministic stream without a seed is the same every time."""
    shuffle = reader.call("shuffle", 100)
    free = {tuple(reader.column(numbers(shuffle), "n")) for _ in range(2)}
    fixed = {tuple(reader.column(numbers(shuffle, deterministic=True), "n")) for _ in range(2)}
    assert (len(free), len(fixed)) == (2, 1)


@pytest.mark.family(every=6)
@pytest.mark.parametrize("consumed", [0, 64, 100, 251, 1000])
@pytest.mark.parametrize("cached", [False, True])
def test_resuming_goes_on_where_the_stream_was(
    reader: Any, numbers: Numbers, consumed: int, *, cached: bool
) -> None:
    """Skipping what was consumed gives just the rest of an uninterrupted stream, epochs later as well."""
    cache = [reader.call("cache")] if cached else []
    transforms = [reader.call("shuffle", 30), *cache, reader.call("shuffle", 40)]
    whole = reader.column(numbers(*transforms, seed=5), "n", 11, repeat=True, most=100)
    resumed = numbers(*transforms, seed=5, skip_examples=consumed)
    found = reader.column(resumed, "n", 11, repeat=True, most=8)
    assert found == whole[consumed : consumed + 88]


def test_resuming_reads_no_epoch_in_vain(reader: Any, numbers: Numbers) -> None:
    """A stream that is a million epochs in is opened as fast as a new one."""
    stream = numbers(reader.call("shuffle", 100), seed=5, skip_examples=100 * 10**6 + 3)
    assert len(reader.column(stream, "n", 97, repeat=False)) == 97


@pytest.mark.family(every=6)
@pytest.mark.parametrize("of", [1, 3])
@pytest.mark.parametrize(
    "transforms",
    [[], [("shuffle", 30)], [("skip", 11), ("take", 50)], [("shuffle", 30), ("take", 60)], [("cache",)]],
    ids=str,
)
def test_shards_together_are_the_data(reader: Any, numbers: Numbers, of: int, transforms: list[Any]) -> None:
    """The shards of a split have no example in common and together all that one stream has."""
    calls = [reader.call(*each) for each in transforms]
    whole = sorted(reader.column(numbers(*calls, seed=3), "n"))
    shards = [numbers(*calls, seed=3, shard=(index, of)) for index in range(of)]
    found = [reader.column(each, "n") for each in shards]
    assert sorted(chain.from_iterable(found)) == whole
    assert [len(each) for each in found] == [each.size for each in shards]


def test_shards_agree_on_a_shuffled_choice_without_a_seed(reader: Any, numbers: Numbers) -> None:
    """Shards of `shuffle -> take` are cut from one order, although no seed is given."""
    calls = [reader.call("shuffle", 100), reader.call("take", 60)]
    found = [reader.column(numbers(*calls, shard=(index, 2)), "n") for index in range(2)]
    assert len(set(chain.from_iterable(found))) == 60


def test_the_size_of_a_pass_counts_take_and_skip(reader: Any, numbers: Numbers) -> None:
    """`size` is what one pass gives, whatever the transforms."""
    call = reader.call
    cases = [
        ((), 100),
        ((call("take", 30),), 30),
        ((call("skip", 30),), 70),
        ((call("skip", 90), call("take", 30)), 10),
        ((call("take", 30), call("skip", 10), call("take", 100)), 20),
    ]
    for calls, size in cases:
        stream = numbers(*calls)
        assert stream.size == size
        assert len(reader.column(stream, "n")) == size


def test_single_examples_are_those_of_the_batches(reader: Any, numbers: Numbers) -> None:
    """Batches of one example give the same examples in the same order as larger ones."""
    stream = numbers(reader.call("shuffle", 10), seed=4, skip_examples=13)
    assert [int(each["n"]) for each in reader.single(stream)] == reader.column(stream, "n")


def test_a_cache_is_read_once(reader: Any, numbers: Numbers) -> None:
    """After a whole pass the file may go: a cached split goes on without it."""
    stream = numbers(reader.call("cache"), reader.call("shuffle", 10), seed=1)
    with tf.Graph().as_default():
        iterator = tf.compat.v1.data.make_initializable_iterator(
            stream.batches(50, repeat=True, drop_remainder=True)
        )
        following = iterator.get_next()
        with tf.compat.v1.Session() as session:
            session.run(iterator.initializer)
            found = [session.run(following)["n"].tolist() for _ in range(2)]
            (reader.base / "numbers.csv").unlink()
            found += [session.run(following)["n"].tolist() for _ in range(6)]
    assert [sorted(chain(*found[at : at + 2])) for at in range(0, 8, 2)] == [ALL] * 4


def test_evaluation_reads_in_order(reader: Any, numbers: Numbers) -> None:
    """Outside training a shuffle that changes only the order is left out, but not one that chooses."""
    shuffle, take = reader.call("shuffle", 100), reader.call("take", 30)
    plain = reader.column(numbers(take, shuffle, seed=1, training=False), "n")
    chosen = reader.column(numbers(shuffle, take, seed=1, training=False), "n")
    assert plain == list(range(30))
    assert chosen == reader.column(numbers(shuffle, take, seed=1), "n")
    assert chosen != plain


def test_the_seed_of_the_graph_does_not_change_the_order(reader: Any, numbers: Numbers) -> None:
    """The order of examples follows from the seed of the stream alone, and the graph keeps its own seed."""
    orders = []
    for seed in (1, 2):
        with tf.Graph().as_default() as graph:
            tf.compat.v1.set_random_seed(seed)
            stream = numbers(reader.call("shuffle", 100), seed=5)
            iterator = tf.compat.v1.data.make_initializable_iterator(
                stream.batches(100, repeat=True, drop_remainder=True)
            )
            following = iterator.get_next()
            assert graph.seed == seed
            with tf.compat.v1.Session() as session:
                session.run(iterator.initializer)
                orders.append(session.run(following)["n"].tolist())
    assert orders[0] == orders[1]


@pytest.mark.family(every=4)
@pytest.mark.parametrize("repeat", [True, False])
@pytest.mark.parametrize("cached", [True, False])
def test_the_order_is_the_same_in_eager_mode(
    reader: Any, numbers: Numbers, *, repeat: bool, cached: bool
) -> None:
    """Datasets that are made in eager mode give the order of a graph, whatever the global seed."""
    transforms = [reader.call("shuffle", 100)] + [reader.call("cache")] * cached
    stream = numbers(*transforms, reader.call("shuffle", 30), seed=5)
    expected = reader.column(stream, "n", 20, repeat=repeat, most=10 if repeat else 5)
    assert tf.executing_eagerly()
    for seed in (0, 1):
        tf.random.set_seed(seed)
        batches = stream.batches(20, repeat=repeat, drop_remainder=True).take(10)
        assert list(chain(*(batch["n"].numpy().tolist() for batch in batches))) == expected


def test_no_tuning_of_a_pipeline_keeps_a_session_open(reader: Any, numbers: Numbers) -> None:
    """The thread that tunes a pipeline looks ever more rarely whether its session is to be closed."""
    stream = numbers(reader.call("shuffle", 10), seed=1)
    batches = stream.batches(5, repeat=True, drop_remainder=True)
    assert batches.options().autotune.enabled is False


def take(count: int) -> Take:
    """Return the transform that takes some examples."""
    return Take(ir.Call("take", (count,)))


def skip(count: int) -> Skip:
    """Return the transform that leaves some examples out."""
    return Skip(ir.Call("skip", (count,)))


@pytest.mark.parametrize(
    ("count", "steps", "size"),
    [
        (10, (), 10),
        (None, (take(3), skip(1), Shard(0, 2)), None),
        (10, (take(3),), 3),
        (2, (take(3),), 2),
        (10, (skip(3),), 7),
        (3, (skip(3),), 0),
        (2, (skip(3),), 0),
        (10, (skip(3), take(3), skip(1)), 2),
        (10, (Shard(0, 3),), 4),
        (10, (Shard(1, 3),), 3),
        (10, (Shard(2, 3),), 3),
        (10, (take(2), Shard(2, 3)), 0),
        (10, (Shard(0, 1), take(20)), 10),
    ],
)
def test_the_size_of_a_pass(count: int | None, steps: tuple[Any, ...], size: int | None) -> None:
    """It follows from the number of records, as if they were counted one by one."""
    assert size_of_pass(count, steps) == size


def test_shards_are_cut_before_what_chooses_nothing() -> None:
    """But after what does; without training there is no shuffle behind that."""
    before, after = (Shuffle(ir.Call("shuffle", (5,))) for _ in range(2))
    cache, some, shard = Cache(ir.Call("cache")), take(3), Shard(1, 2)
    transforms = (before, some, after, cache)
    training, other = StreamOptions(""), StreamOptions("", training=False)  # type: ignore[arg-type]  # converted
    assert steps_of(transforms, training, shard) == (before, some, shard, after, cache)
    assert steps_of(transforms, other, shard) == (before, some, shard, cache)
    assert steps_of(transforms, training) == transforms
    assert steps_of((after, cache), other, shard) == (shard, cache)
    assert steps_of((), training, shard) == (shard,)


@pytest.mark.parametrize(
    ("fields", "chunk"),
    [
        ([], 1024),
        ([Field("a", "uint8", ())], 1024),
        ([Field("a", "float32", (1024,))], 1024),
        ([Field("a", "float32", (1024,)), Field("b", "uint8", (1,))], 1023),
        ([Field("a", "float32", (1024,)), Field("b", "float64", (512,))], 512),
        ([Field("a", "string", (1 << 10,))], 256),
        ([Field("a", "float64", (1 << 20,))], 1),
    ],
)
def test_large_examples_are_decoded_few_at_a_time(numbers: Numbers, fields: list[Field], chunk: int) -> None:
    """As many as fill four mebibytes, and no more than 1024."""
    passes = Passes(numbers().source, (), tuple(fields), 0, StreamOptions(Path()))
    assert passes.chunk == chunk


def change(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return a transform that changes tensors."""
    kinds = {"cast": Cast, "one_hot": OneHot, "rename": Rename, "mixup": Mixup, "random_flip": RandomFlip}
    return kinds[name](ir.Call(name, args, kwargs))


@pytest.mark.parametrize(
    ("changes", "floats"),
    [
        ([], set()),
        ([("cast", "image", "float32")], {"image"}),
        ([("cast", "image", "float32"), ("cast", "label", "float32")], {"image", "label"}),
        ([("cast", "image", "float64")], set()),
        ([("cast", "image", "int32"), ("cast", "image", "float32")], set()),
        ([("one_hot", "label", 3), ("cast", "label", "float32")], set()),
        ([("random_flip", "image"), ("cast", "image", "float32")], {"image"}),  # pixels only move
        ([("random_flip", "image"), ("mixup", "image", "label"), ("cast", "image", "float32")], set()),
        ([("random_flip", "image"), ("cast", "label", "float32")], {"label"}),
        ([("mixup", "image", "label"), ("cast", "image", "float32")], set()),
        ([("rename", {"picture": "image"}), ("cast", "picture", "float32")], {"image"}),
        ([("rename", {"image": "label", "label": "image"}), ("cast", "image", "float32")], {"label"}),
        ([("cast", "other", "float32")], set()),
    ],
)
def test_what_becomes_a_float_first_may_be_decoded_as_one(changes: list[Any], floats: set[str]) -> None:
    """Only if nothing has looked at its whole numbers before, whatever its name is by then."""
    made = []
    for name, *given in changes:
        keywords = given.pop() if given and isinstance(given[-1], dict) else {}
        made.append(change(name, *given, **keywords))
    fields = (Field("image", "uint8", (2, 2, 3)), Field("label", "int32", ()))
    source = SimpleNamespace(fields=fields, per_record=True)
    assert Examples(None, source, tuple(made))._floats() == floats  # type: ignore[arg-type]  # what it needs


@pytest.mark.family(every=2)
@pytest.mark.parametrize("shuffled", [False, True])
def test_parts_of_batches_make_up_one_order(reader: Any, numbers: Numbers, *, shuffled: bool) -> None:
    """However many share each batch, and whenever that changes, they read the examples in one order."""
    steps = [reader.call("shuffle", 100)] if shuffled else []
    whole = reader.column(numbers(*steps, seed=1), "n", 1, repeat=True, most=300)
    at, found = 0, list[int]()
    for workers in (2, 3, 1, 4):
        parts = [
            reader.batches(
                numbers(*steps, seed=1, skip_examples=at, window=(own * 5, own * 5 + 5, workers * 5)),
                5,
                repeat=True,
                most=3,
            )
            for own in range(workers)
        ]
        for step in zip(*parts, strict=True):
            found += [int(each) for part in step for each in part["n"]]
        at = len(found)
    assert found == whole[: len(found)]
    assert len(found) == 150
