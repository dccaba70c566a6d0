"""The schemas that are published, as files of the package."""

from __future__ import annotations

import json
from pathlib import Path

from attrs import frozen

from compiler.kinds.kind_map import KINDS_VERSION, KindMap
from compiler.mapping.records import FORMAT_VERSION as MAP_VERSION
from compiler.mapping.records import PlacementMap
from compiler.report.compare import FORMAT_VERSION as DIFF_VERSION
from compiler.time.profile import FORMAT_VERSION as PROFILE_VERSION
from compiler.time.profile import Profile
from dsl.formats.programs import FORMAT_VERSION as MESSAGES_VERSION
from tfdeploy.doctor import FORMAT_VERSION as DOCTOR_VERSION
from tfdeploy.doctor import Examination
from tfdeploy.doctor.gpu import FORMAT_VERSION as GPU_VERSION
from tfdeploy.doctor.gpu import GpuReport
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.records.result import Evaluated, Result
from tfdeploy.runtime.track.tracking import Tracked
from tfdeploy.sweeping.sweep import FORMAT_VERSION as SWEEP_VERSION
from tfdeploy.sweeping.sweep import SweepRecord
from tools.schemas.documents import Differences, Messages, Trace
from tools.schemas.from_records import schema_of

FOLDER = Path(__file__).resolve().parents[2] / "tfdeploy" / "schemas"
PLAIN_VERSION = "1.0"
"""The version of the formats that do not carry one."""


@frozen
class Published:
    """A schema.

    Attributes:
        name: Its name, which the file begins with.
        record: The record that it is made of.
        version: The version of the format.
        of: What it is the schema of, for its title.
        where: The files and commands that have this format, for the page.
    """

    name: str
    record: type
    version: str
    of: str
    where: str

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.name}.schema.json"

    def text(self) -> str:
        """Return the text of its file."""
        identifier = f"urn:tfdeploy:schema:{self.name}:{self.version}"
        schema = schema_of(self.record, identifier, f"tfdeploy: {self.of}, version {self.version}")
        return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


SCHEMAS = (
    Published(
        "placement",
        PlacementMap,
        MAP_VERSION,
        "placement map",
        "`placement.json` of a run, `plan --json`, `compile`",
    ),
    Published(
        "placement-2",
        KindMap,
        KINDS_VERSION,
        "placement map by kinds",
        "`plan --json` of [many clones that are alike](files.md#placement-maps-of-many-clones)",
    ),
    Published(
        "result",
        Result,
        PLAIN_VERSION,
        "result of a run",
        "`result.json` of a run, `compile-and-run --json`",
    ),
    Published("history", HistoryRecord, PLAIN_VERSION, "line of a history", "each line of `history.jsonl`"),
    Published("evaluation", Evaluated, PLAIN_VERSION, "evaluation of a model", "`evaluate --json`"),
    Published("diagnostics", Messages, MESSAGES_VERSION, "diagnostics", "`check --format json`"),
    Published("diff", Differences, DIFF_VERSION, "difference of two placements", "`diff --json`"),
    Published(
        "profile",
        Profile,
        PROFILE_VERSION,
        "costs measured by calibrate",
        "`NAME.profile.json`, which `calibrate` writes",
    ),
    Published("doctor", Examination, DOCTOR_VERSION, "examination of a machine", "`doctor --json`"),
    Published("gpu", GpuReport, GPU_VERSION, "report on GPUs", "the report of `doctor --gpu`"),
    Published("sweep", SweepRecord, SWEEP_VERSION, "sweep", "`sweep.json` of a sweep"),
    Published(
        "track",
        Tracked,
        PLAIN_VERSION,
        "what a tracker has got of a run",
        "`track.json` of a run with `track`",
    ),
    Published(
        "trace",
        Trace,
        PLAIN_VERSION,
        "times of ops",
        "`trace.json` of a run with `profile`, as Chrome's trace viewer reads it",
    ),
)


def files() -> dict[Path, str]:
    """Return the texts of the schemas by their files."""
    return {FOLDER / each.file: each.text() for each in SCHEMAS}
