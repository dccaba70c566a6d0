"""Which combinations of mode, aggregation, placement, packing and clones are verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve, frozen

from compiler.compatibility import MODES, VARIABLES, conflicts, facts_of
from compiler.step.sums.compress import CASTS
from dsl import ir
from dsl.ir.place import PARAMETER_SERVER, WORKER
from dsl.schema.functions import function_names

GLOBAL_BATCH = 24
SPLITS = {
    1: ((24,), (24,)),
    2: ((12, 12), (15, 9)),
    3: ((8, 8, 8), (11, 6, 7)),
    4: ((6, 6, 6, 6), (9, 5, 6, 4)),
    8: ((3, 3, 3, 3, 3, 3, 3, 3), (5, 2, 2, 3, 4, 3, 2, 3)),
}
"""Numbers of clones, and the batch of each clone: once equal, once not."""

HALVED = (3, 8)
SHAPED = (4, 8)
"""Numbers of clones: with half of the packings in `local`; with several sizes of groups and shards."""

CLUSTERS = {
    2: ((12, 12), (6, 6, 6, 6), (15, 9)),
    3: ((8, 8, 8), (4, 4, 4, 4, 4, 4), (5, 2, 4, 4, 6, 3)),
}
"""Numbers of workers, and the batch of each clone: one and two clones a worker, equal and not."""

LAUNCHED = ((2, 2), (6, 6, 6, 6), (9, 5, 6, 4))
"""For real processes: the clones of each worker, and twice the batch of each clone."""

SLOTS_SHARDED = "replicated, slots sharded"
LAYOUTS = (*VARIABLES, SLOTS_SHARDED)
"""The placements of variables and of their slots."""

AVERAGE_EVERY = 2
EVERY_LAYER = ir.Call("scopes", ("*",))
_CPUS = ir.DeviceSet((ir.DevicePattern("cpu"),))
_FIRST_CPU = ir.DevicePattern("cpu", (0,))
_SERVERS = ir.DeviceSet((ir.DevicePattern("cpu", (0,), PARAMETER_SERVER),))
_FIRST_SERVER = ir.DevicePattern("cpu", (0,), PARAMETER_SERVER, (0,))


@frozen
class Case:
    """One combination."""

    mode: ir.Mode
    aggregate: ir.Call
    variables: str  # the placement of variables, one of `LAYOUTS`
    batches: tuple[int, ...]
    pack: int | None = None  # the size of a bucket of packed gradients in bytes; None for no packing
    average_slots: bool = False  # whether slots of optimizers are averaged as well (local)
    workers: int = 0  # the number of workers of a cluster with two parameter servers; 0 for one process
    between: bool = False

    @property
    def clones(self) -> int:
        """How many clones there are."""
        return len(self.batches)

    @property
    def updaters(self) -> tuple[int, ...]:
        """The number of examples of each independent updater in async, which is a clone or a whole worker."""
        if not self.between:
            return self.batches
        own = self.clones // self.workers
        return tuple(sum(self.batches[at : at + own]) for at in range(0, self.clones, own))

    @property
    def leaves_gradients(self) -> bool:
        """Whether workers put gradients into mailboxes, and send each other no sums."""
        return self.between and self.variables not in {"replicated", SLOTS_SHARDED}

    def compression(self, spec: ir.Spec) -> ir.Call | None:
        """Return how gradients are compressed if a spec says so, as far as this combination can."""
        wanted = spec.update.compress
        can = wanted is None or wanted.name in CASTS or not self.leaves_gradients
        return wanted if self.mode == "sync" and self.workers > 0 and can else None

    @property
    def layout(self) -> str:
        """Where the variables are, and whether on a cluster and in which graphs."""
        if not self.workers:
            return self.variables
        return f"{self.variables}, {'between graphs' if self.between else 'in graph'}"

    @property
    def aggregation(self) -> str:
        """The aggregation as a spec has it."""
        options = ", ".join(f"{key} = {value}" for key, value in self.aggregate.kwargs.items())
        return f"{self.aggregate.name}({options})" if options else self.aggregate.name

    @property
    def title(self) -> str:
        """The combination in words."""
        parts = [f"mode = {self.mode}"]
        parts += [f"aggregate = {self.aggregation}"] if self.mode != "async" else []
        parts += [f"variables {self.variables}", f"batch = {list(self.batches)}"]
        if self.workers:
            parts += [f"replication = {'between' if self.between else 'in'}_graph, {self.workers} workers"]
        parts += ["packed"] if self.pack is not None else []
        parts += ["slots averaged"] if self.average_slots else []
        return ", ".join(parts)

    def apply(self, spec: ir.Spec) -> ir.Spec:
        """Return the spec with this combination in place of its own, on logical CPU devices.

        Steps are too small for a limit of memory, in place of which every layer is computed again. Clones of
        a pipeline keep their groups of devices, and its stages.
        """
        local = self.mode == "local"
        update = evolve(
            spec.update,
            mode=self.mode,
            aggregate=self.aggregate,
            pack=self.pack,
            compress=self.compression(spec),
            average_every=AVERAGE_EVERY if local else None,
            average_slots=self.average_slots,
            staleness=None,
            replication="between_graph" if self.between else None if not self.workers else "in_graph",
            backup=0,
            recompute=EVERY_LAYER if spec.update.recompute_limit is not None else spec.update.recompute,
        )
        devices, first = (_SERVERS, _FIRST_SERVER) if self.workers else (_CPUS, _FIRST_CPU)
        targets: dict[str, ir.Target] = {
            "shared": ir.DeviceSet((first,)),
            "spread": ir.Balanced(devices),
            "sharded": ir.Sharded(devices),
        }
        size, stages = _pipeline(spec)
        clones: ir.Target = _CPUS if size == 1 else ir.Groups(_CPUS, size)
        target = targets.get(self.variables, ir.Replicated())
        rules = [ir.Rule(ir.Selector("clones"), clones), ir.Rule(ir.Selector("variables"), target), *stages]
        if self.variables == SLOTS_SHARDED:
            rules.append(ir.Rule(ir.Selector("slots"), ir.OverClones()))
        return evolve(
            spec,
            update=update,
            devices=self._cluster(size) if self.workers else ir.Devices(cpu=self.clones * size),
            clones=ir.Clones(count=self.clones, batch=self.batches),
            place=ir.Place(tuple(rules)),
            expect=ir.Expect(),
            train=evolve(spec.train, deterministic=False, summaries="none"),
        )

    def _cluster(self, size: int) -> ir.Devices:
        """Return two servers, and workers whose clones have `size` devices each."""
        servers = ir.Job(PARAMETER_SERVER, tasks=2)
        return ir.Devices(
            jobs=(servers, ir.Job(WORKER, self.workers, cpu=self.clones // self.workers * size))
        )


def _pipeline(spec: ir.Spec) -> tuple[int, Sequence[ir.Rule]]:
    """Return the devices of each clone, and the rules for stages; one and none if there is no pipeline."""
    if spec.update.schedule is None:
        return 1, ()
    rules = spec.place.rules
    sizes = [each.target.size for each in rules if isinstance(each.target, ir.Groups)]
    of_ops = (each for each in rules if each.selector.role == "ops")
    return sizes[-1], [each for each in of_ops if isinstance(each.target, ir.GroupMember)]


def every_case(pack: int) -> Iterator[Case]:
    """Yield all combinations, also those that are not allowed; `pack` is the size of a bucket in bytes.

    Each aggregation meets each placement, packed and not, for each number of clones, in `sync`. In
    `local`, the same sums average the copies, so for 3 and 8 clones each placement is tried once, packed and
    not by turns. Equal and unequal batches take turns.
    """
    for clones, splits in SPLITS.items():
        yield from _together(clones, pack, splits, halved=clones in HALVED)
        for number, variables in enumerate(VARIABLES):
            yield Case("async", ir.Call("add_n"), variables, splits[number % 2])
    yield from _clusters()


def _clusters() -> Iterator[Case]:
    """Yield all ways of training on a cluster, with variables on its parameter servers."""
    plain = ir.Call("add_n")
    for workers, splits in CLUSTERS.items():
        for batches in splits:
            for mode in MODES:
                yield Case(mode, plain, "spread", batches, workers=workers)
                yield Case(mode, plain, "spread", batches, workers=workers, between=True)
    for mode in MODES:
        for between in (False, True):
            yield Case(mode, plain, "sharded", CLUSTERS[2][-1], workers=2, between=between)
    yield from _replicas(tuple((workers, splits[1:]) for workers, splits in CLUSTERS.items()))


def _replicas(clusters: Sequence[tuple[int, Sequence[tuple[int, ...]]]]) -> Iterator[Case]:
    """Yield the sums over workers that each have all weights, for numbers of workers with their batches."""
    for workers, splits in clusters:
        for at, name in enumerate(function_names("aggregation")):
            batches = splits[at % len(splits)]
            sync = Case("sync", ir.Call(name), "replicated", batches, workers=workers, between=True)
            yield from (sync, evolve(sync, mode="local", average_slots=at % 2 == 0))
        yield Case("sync", ir.Call("add_n"), SLOTS_SHARDED, splits[-1], workers=workers, between=True)


def launched_cases(pack: int) -> Iterator[Case]:
    """Yield all combinations for two workers with two devices each, on which servers can run them all.

    As `every_case` does for one process: each aggregation meets each placement, packed and not. If each
    worker has a graph of its own, each aggregation, which sums what the clones of a worker have, meets each
    placement, packed or not by turns.
    """
    splits, plain, workers = LAUNCHED[1:], ir.Call("add_n"), len(LAUNCHED[0])
    yield from _together(sum(LAUNCHED[0]), pack, splits, workers, halved=True)
    for number, variables in enumerate(VARIABLES):
        yield Case("async", plain, variables, splits[number % 2], workers=workers)
        for mode in MODES:
            for batches in splits:
                if variables != "replicated":
                    yield Case(mode, plain, variables, batches, workers=workers, between=True)
    yield from _replicas([(workers, splits)])
    yield from _sums_of_workers(pack, splits, workers)


def _sums_of_workers(pack: int, splits: Sequence[tuple[int, ...]], workers: int) -> Iterator[Case]:
    """Yield what workers with graphs of their own sum in all other ways than plainly, or as `_replicas`."""
    for at, name in enumerate(function_names("aggregation")):
        plain = Case("sync", ir.Call(name), "replicated", splits[at % 2], pack, workers=workers, between=True)
        yield from (plain, evolve(plain, mode="local"))
        for number, variables in enumerate((*VARIABLES, SLOTS_SHARDED)):
            packed = pack if at == 0 or (at + number) % 2 else None
            if variables != "replicated":
                yield evolve(plain, variables=variables, pack=packed)


def _together(
    clones: int, pack: int, splits: Sequence[tuple[int, ...]], workers: int = 0, *, halved: bool
) -> Iterator[Case]:
    """Yield what sums over all clones, with half of the packings in `local` if these are to be halved."""
    for number, (call, variables, packed) in enumerate(_sums(clones, pack)):
        batches, other = splits[number % 2], splits[(number + 1) % 2]
        yield Case("sync", call, variables, batches, packed, workers=workers)
        turn = (packed is None) == bool(number // 2 % 2)
        if (turn or not halved) and (clones > 1 or call.name == "add_n"):
            slots = number % 3 == 0
            yield Case("local", call, variables, other, packed, average_slots=slots, workers=workers)
    for number, (call, packed) in enumerate(_sums_of_parts(clones, pack)):
        yield Case("sync", call, SLOTS_SHARDED, splits[number % 2], packed, workers=workers)


def launched_spec(spec: ir.Spec) -> ir.Spec:
    """Return the spec whose servers run all of `launched_cases`."""
    return Case("sync", ir.Call("add_n"), "spread", LAUNCHED[1], workers=len(LAUNCHED[0])).apply(spec)


def _sums(clones: int, pack: int) -> Iterator[tuple[ir.Call, str, int | None]]:
    """Yield what concerns the sums: an aggregation, a placement, and a size of buckets or none."""
    calls = [ir.Call(name) for name in function_names("aggregation")]
    for at, call in enumerate(calls):
        for number, variables in enumerate(VARIABLES):
            if clones == 1:  # a sum of one has no buckets, and is at one place
                if call.name == "add_n" or variables == "shared":
                    yield call, variables, None
                continue
            # in turns, so that both kinds of batches meet both kinds of packing
            for packed in (None, pack) if (at + number) % 2 else (pack, None):
                yield call, variables, packed
    if clones in SHAPED:
        for call in (ir.Call("hierarchical", (), {"size": 3}), ir.Call("shuffle", (), {"shards": 2})):
            for variables in VARIABLES:
                yield call, variables, None


def _sums_of_parts(clones: int, pack: int) -> Iterator[tuple[ir.Call, int | None]]:
    """Yield what concerns the sums if each clone updates a part: an aggregation, and buckets or none."""
    for at, name in enumerate(function_names("aggregation") if clones > 1 else ()):
        for packed in (None, pack) if clones in SHAPED else ((None, pack)[at % 2],):
            yield ir.Call(name), packed


def sample(cases: Sequence[Case], clones: tuple[int, ...] = (2, 3)) -> list[Case]:
    """Return few of the cases in which every value of every aspect still occurs, for numbers of clones."""
    few = [case for case in cases if case.clones in clones]
    wanted = {value for case in few for value in aspects_of(case)}
    chosen: list[Case] = []
    while wanted:
        best = max(few, key=lambda case: len(wanted & aspects_of(case)))
        chosen.append(best)
        wanted -= aspects_of(best)
    return chosen


def aspects_of(case: Case) -> set[tuple[str, object]]:
    """Return what a case has, each together with the mode: an async case shows nothing of sync."""
    values: dict[str, object] = {
        "aggregate": case.aggregate.name,
        "variables": case.variables,
        "packed": case.pack is not None,
        "batches": case.batches,
        "layout": (case.layout, case.workers),
    }
    return {(f"{case.mode} {aspect}", value) for aspect, value in values.items()}


@frozen
class SelectedCases:
    """The cases that are verified."""

    cases: tuple[Case, ...]
    # The reasons why other combinations are not allowed, each with their number.
    left_out: tuple[tuple[str, int], ...]


def select_cases(
    spec: ir.Spec,
    *,
    sparse: bool,
    given: bool = False,
    pack: int,
    quick: bool,
    whole: bool = True,
    launch: bool = False,
    uncut: Mapping[str, str] | None = None,
) -> SelectedCases:
    """Select the cases for a spec.

    Args:
        given: Whether the model gives a weight with a gradient another value.
        pack: The size of a bucket of packed gradients, in bytes.
        whole: Whether clones that make a step together compute the same as one clone on their whole batch. If
            not, there is no reference for the updates of a worker with several clones.
        uncut: For placements that cut variables or slots, why those of the spec cannot be cut.
    """
    kept: list[Case] = []
    reasons: dict[str, int] = {}
    for case in launched_cases(pack) if launch else every_case(pack):
        if not whole and case.mode == "async" and len(case.updaters) < case.clones:
            continue
        facts = facts_of(case.apply(spec), sparse=sparse, given=given)
        found = next(conflicts(facts), None)
        title = found.title(facts) if found is not None else (uncut or {}).get(case.variables)
        if title is None:
            kept.append(case)
        else:
            reasons[title] = reasons.get(title, 0) + 1
    few = sample(kept, (sum(LAUNCHED[0]),) if launch else (2, 3)) if quick else kept
    return SelectedCases(tuple(few), tuple(reasons.items()))
