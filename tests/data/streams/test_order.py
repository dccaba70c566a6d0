"""What each of several workers reads: together the data set, by whole files where that is fair."""

from collections.abc import Iterator
from itertools import chain, product
from typing import Any

import pytest

from tests.data.shared_files import COUNT, FILES, KINDS, ORDERS, Kind, two_passes
from tfdeploy.data.streams.order import deal

WORKERS = (1, 2, 3, 5)
OF_FILES = [kind for kind in KINDS if kind.name in {"csv", "tfrecord", "cifar10"}]


def cases() -> Iterator[Any]:
    """Yield each source with each order, and the numbers of workers that read it then.

    Of the three aspects, each value of one meets each value of another.
    """
    for (at, kind), (place, order) in product(enumerate(KINDS), enumerate(ORDERS)):
        numbers = tuple(of for turn, of in enumerate(WORKERS) if (at + turn) % len(ORDERS) == place)
        name = f"{kind.name}-{','.join(map(str, numbers))} workers-{order}"
        yield pytest.param(kind, order, numbers, id=name)


@pytest.mark.family(every=48)
@pytest.mark.parametrize(("kind", "order", "numbers"), list(cases()))
def test_shards_together_are_the_data_in_every_pass(
    kind: Kind, order: tuple[tuple[Any, ...], ...], numbers: tuple[int, ...], reader: Any
) -> None:
    """Several workers read in each pass what one stream reads in it, each example once."""
    kind.write(reader.base)
    calls = [reader.call(*each) for each in order]
    streams = [kind.opened(reader, *calls, seed=3)]
    streams += [
        kind.opened(reader, *calls, seed=3, shard=(index, of)) for of in numbers for index in range(of)
    ]
    whole, *found = two_passes(streams)
    wanted = [sorted(kind.numbers(each)) for each in whole]
    assert len(set(wanted[0])) == len(wanted[0]) == streams[0].size
    for of in numbers:
        shards, found = found[:of], found[of:]
        together = [sorted(chain(*map(kind.numbers, batches))) for batches in zip(*shards, strict=True)]
        assert together == wanted


@pytest.mark.family(every=3)
@pytest.mark.parametrize("of", [2, 3])
@pytest.mark.parametrize("kind", OF_FILES, ids=lambda kind: kind.name)
def test_a_worker_opens_only_its_own_files(kind: Kind, of: int, reader: Any) -> None:
    """Where whole files are a fair share, a worker reads its part although all others' files are gone."""
    kind.write(reader.base)
    stream = kind.opened(reader, reader.call("shuffle", 5), seed=3, shard=(1, of))
    assert stream.size == COUNT // of
    read = sorted(chain(*map(kind.numbers, two_passes([stream])[0][:1])))
    size = COUNT // FILES
    files = sorted({int(each) // size for each in read})
    assert files == list(range(1, FILES, of))
    for path in reader.base.iterdir():
        if not any(f"-{number}." in path.name for number in files):
            path.unlink()
    assert sorted(kind.numbers(two_passes([stream])[0][1])) == read


@pytest.mark.family(every=3)
@pytest.mark.parametrize("kind", OF_FILES, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("of", "order"), [(5, ()), (3, (("take", 20),))], ids=["six files for five", "take"])
def test_records_are_dealt_where_files_cannot_be(
    kind: Kind, of: int, order: tuple[tuple[Any, ...], ...], reader: Any
) -> None:
    """Where files would be unfair, or are counted across, worker 1 takes each of-th record."""
    kind.write(reader.base)
    calls = [reader.call(*each) for each in order]
    stream = kind.opened(reader, *calls, shard=(1, of))
    wanted = list(range(1, 20 if order else COUNT, of))
    assert kind.numbers(two_passes([stream])[0][0]) == wanted


def test_files_of_unequal_size_are_dealt_where_that_comes_out_even() -> None:
    """The largest file goes first, to whoever has least; what leaves a difference is not dealt at all."""
    assert deal([4, 2, 2, 3, 1], 2) == ((0, 2), (1, 3, 4))
    assert deal([4, 2, 2, 3], 2) is None
    assert deal([5], 2) is None
    assert deal([0, 0], 2) is None
    assert deal([7, 0, 3], 1) == ((0, 1, 2),)


def test_resuming_by_files_goes_on_where_the_worker_was(reader: Any) -> None:
    """What a worker has consumed is skipped in its own files, passes later too."""
    kind = OF_FILES[0]
    kind.write(reader.base)
    shuffle = reader.call("shuffle", 5)
    whole = kind.opened(reader, shuffle, seed=3, shard=(0, 3))
    resumed = kind.opened(reader, shuffle, seed=3, shard=(0, 3), skip_examples=14)
    wanted = reader.column(whole, "n", 6, repeat=True, most=6)
    assert reader.column(resumed, "n", 4, repeat=True, most=5) == wanted[14:34]
