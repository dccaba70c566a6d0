"""The history of a run reads as one story, whatever became of the processes that wrote it."""

import json
import math
import os
import re
from pathlib import Path

import pytest
from attrs import evolve

from dsl.diagnostics import RunError
from tfdeploy.runtime.records.history import History, HistoryRecord


def line(step: int, split: str = "train", loss: float = 0.5) -> HistoryRecord:
    """Return a line of the history."""
    return HistoryRecord(
        step=step,
        split=split,  # type: ignore[arg-type]
        loss=loss,
        data_loss=0.25,
        metrics={"accuracy": 0.75},
        examples_per_second=1234.6,
        time="2030-01-01T00:00:00.000Z",
    )


def test_what_is_not_finite_is_null() -> None:
    """JSON has no NaN, so a loss without a value is null, and reads back as NaN."""
    text = line(10, loss=float("nan")).to_json()
    assert json.loads(text)["loss"] is None
    again = HistoryRecord.read(text.encode())
    assert math.isnan(again.loss)


def test_a_line_has_its_fields_in_order_and_leaves_out_what_is_not_known() -> None:
    """Speeds have one decimal place, shares have four; a speed that is not known is null."""
    record = HistoryRecord(10, "train", 0.5, 0.25, {"a": 0.75}, time="now")
    start = '{"step": 10, "split": "train", "loss": 0.5, "data_loss": 0.25, "metrics": {"a": 0.75}, '
    assert record.to_json() == start + '"examples_per_second": null, "time": "now"}'
    known = evolve(
        record, examples_per_second=12.345, learning_rate=0.1, data_waiting=0.123456, worker="worker:0"
    )
    more = '"examples_per_second": 12.3, "learning_rate": 0.1, "data_waiting": 0.1235, "worker": "worker:0"'
    assert known.to_json() == start + more + ', "time": "now"}'


def test_a_cut_last_line_is_dropped(tmp_path: Path) -> None:
    """What a kill leaves of the last line is taken out without a word, and the next line follows whole."""
    path = tmp_path / "history.jsonl"
    path.write_text(line(10).to_json() + "\n" + line(20).to_json()[:30])
    history = History(path)
    assert history.repair(20) == 0
    history.append(line(20))
    history.close()
    assert path.read_text() == "".join(f"{line(step).to_json()}\n" for step in (10, 20))


def test_lines_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    """Steps that will be made again have no lines from the first time, in any split."""
    path = tmp_path / "history.jsonl"
    lines = [line(10), line(20), line(20, "test"), line(30), line(40, "test")]
    path.write_text("".join(f"{each.to_json()}\n" for each in lines))
    history = History(path)
    assert history.repair(20) == 0
    assert path.read_text() == "".join(f"{each.to_json()}\n" for each in lines[:3])
    assert history.last("test") == lines[2]
    assert history.last("validation") is None


def test_broken_lines_in_the_middle_are_counted(tmp_path: Path) -> None:
    """Damage that no kill explains is told to the caller, and unknown fields are kept."""
    path = tmp_path / "history.jsonl"
    newer = line(20).to_json()[:-1] + ', "of_a_later_version": 1}'
    path.write_text("\n".join([line(10).to_json(), "{", '{"step": 15}', "[]", newer, ""]))
    assert History(path).repair(100) == 3
    assert path.read_text() == f"{line(10).to_json()}\n{newer}\n"


def test_a_line_that_the_system_takes_in_two_parts_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest follows at once, and only once; what is taken whole is followed by nothing."""
    sizes = []
    write = os.write

    def take(descriptor: int, data: bytes) -> int:
        sizes.append(len(data))
        return write(descriptor, data[:100])

    monkeypatch.setattr(os, "write", take)
    short = HistoryRecord(1, "train", 0.5, 0.5, time="")
    assert len(short.to_json()) in range(100, 200)
    history = History(tmp_path / "history.jsonl")
    for limit in (100, 1000):
        monkeypatch.setattr(os, "write", take if limit == 100 else write)
        history.append(short)
    history.close()
    assert sizes == [len(short.to_json()) + 1, len(short.to_json()) + 1 - 100]
    assert (tmp_path / "history.jsonl").read_text() == 2 * f"{short.to_json()}\n"


def test_a_history_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """Neither opened nor read, with the reason; a history that was never opened needs no closing."""
    (tmp_path / "history.jsonl").mkdir()
    history = History(tmp_path / "history.jsonl")
    for refused in (lambda: history.append(line(1)), lambda: history.repair(1)):
        with pytest.raises(RunError, match="cannot be written: is a directory"):
            refused()
    history.sync()
    history.close()


def test_times_have_milliseconds() -> None:
    """In the zone of Greenwich, which is called Z."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", HistoryRecord(1, "train", 0.5, 0.5).time)


def test_rates_of_groups_have_names_of_their_own() -> None:
    """As curves of TensorBoard; a run with one rate has none."""
    record = evolve(line(1), learning_rates={"a/*": 0.1, "b/*": 0.2})
    assert record.rates_of_groups() == {"learning_rate/a/*": 0.1, "learning_rate/b/*": 0.2}
    assert line(1).rates_of_groups() == {}
