"""What this machine has, and what of tfdeploy would fail on it; `tfdeploy doctor` prints it."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from dsl.files.typed_json import JsonRecord

FORMAT_VERSION = "1.0"

State = Literal["fine", "warning", "failure"]


@frozen
class Finding:
    """One thing that was examined.

    Attributes:
        name: What was examined, such as `memory`.
        state: `failure` if something will not work, `warning` if something may not.
        found: What there is.
        advice: What will not work, and what to do about it; empty if all is fine.
    """

    name: str
    state: State
    found: str
    advice: str = ""


@frozen
class Examination(JsonRecord):
    """All findings about a machine.

    Attributes:
        healthy: Whether there is no failure.
        findings: The findings.
        format_version: The version of the format.
    """

    healthy: bool
    findings: tuple[Finding, ...]
    format_version: str = FORMAT_VERSION

    @classmethod
    def of(cls, findings: tuple[Finding, ...]) -> Examination:
        """Return the record for some findings."""
        return cls(all(each.state != "failure" for each in findings), findings)
