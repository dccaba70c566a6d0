"""The page of schemas, from the table of those that are published."""

from __future__ import annotations

from tools.reference.markdown import NOTICE, table
from tools.schemas.published import SCHEMAS

INTRODUCTION = """\
# Schemas of files

Programs can read what tfdeploy writes. Each format has a [JSON schema](https://json-schema.org/) (draft 2020-12), with a
sentence on each field:

"""
REMARKS = """\
The schemas are files of the installed package too, in the folder `schemas` of `tfdeploy`.

Within a major version fields may be added, and none is removed or changes its meaning. So the schemas allow further
fields, and require only those that files of every 1.x have. They accept exactly what tfdeploy's own readers accept,
apart from whole numbers of more than 64 bits, and from figures of a profile that cannot be, such as negative times, which
the readers refuse.
"""


def page() -> str:
    """Return the page of the documentation."""
    rows = [
        [f"[`{each.file}`](../../tfdeploy/schemas/{each.file})", each.version, each.where] for each in SCHEMAS
    ]
    return NOTICE + INTRODUCTION + table(["schema", "version", "of"], rows) + REMARKS
