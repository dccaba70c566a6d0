"""Manifests as YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yaml import SafeDumper, ScalarNode

    from tfdeploy.kubernetes.common import Manifest

WIDTH = 1 << 20
"""No text is folded: one of JSON reads better on a line of its own."""


def to_yaml(manifests: Iterable[Manifest]) -> str:
    """Return manifests as the documents of one YAML file, texts of several lines as they are."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes what occurs twice twice: references between parts are hard to read."""

        def ignore_aliases(self, data: object) -> bool:
            """Answer that nothing is written as a reference."""
            del data
            return True

    Dumper.add_representer(str, _text)
    text: str = yaml.dump_all(manifests, Dumper=Dumper, sort_keys=False, explicit_start=True, width=WIDTH)
    return text


def _text(dumper: SafeDumper, text: str) -> ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)
