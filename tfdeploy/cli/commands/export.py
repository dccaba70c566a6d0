"""`tfdeploy export`: a trained model for programs that serve it, or a cluster's tasks for Kubernetes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dsl.diagnostics import SpecError
from tfdeploy.cli.common import Common, say, write_result
from tfdeploy.cli.faults import telling
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import checkpoint_option, common_options, emulate_option, offer

if TYPE_CHECKING:
    from collections.abc import Iterable

STANDARD_OUTPUT = "-"
_LABEL = (
    r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?",
    "small letters, digits and hyphens, from a letter on, at most 63",
)
_SUBDOMAIN = (r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", "small letters, digits, hyphens and dots")
NAMES = {"name": _LABEL, "namespace": _LABEL, "runs": _SUBDOMAIN, "data": _SUBDOMAIN}
"""What the names of objects are made of, as a pattern and in words, by option."""
ONLY_MODEL = ("checkpoint", "emulate")
"""The options that mean nothing for manifests."""


def _new_folder(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and str(path) != STANDARD_OUTPUT and path.exists():
        raise click.BadParameter(f"{str(path)!r} is there already", ctx, param)
    return path


def _name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse what Kubernetes does not take as the name of such an object: the API would, but much later."""
    import re

    pattern, words = NAMES[param.name or ""]
    if value is not None and not re.fullmatch(pattern, value):
        raise click.BadParameter(f"{value!r} is not made of {words}", ctx, param)
    return value


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@click.option(
    "--saved-model",
    "folder",
    type=click.Path(path_type=Path),
    callback=_new_folder,
    metavar="DIR",
    help="A new folder for the trained model, which TensorFlow Serving and tf.saved_model.load read.",
)
@checkpoint_option
@emulate_option()
@click.option("--kubernetes", is_flag=True, help="Write manifests that run the tasks of the spec's cluster.")
@click.option("--image", metavar="IMAGE", help="A container image in which tfdeploy is installed.")
@click.option("--runs", metavar="CLAIM", callback=_name, help="The volume claim for run directories.")
@click.option(
    "--data",
    metavar="CLAIM",
    callback=_name,
    help="The volume claim with the data; default: the data is in the image.",
)
@click.option(
    "--kind",
    type=click.Choice(["Job", "TFJob"]),
    default="Job",
    show_default=True,
    help="Plain Jobs, or a TFJob for Kubeflow's training operator.",
)
@click.option("--name", metavar="NAME", callback=_name, help="The name of the run; default: the spec's.")
@click.option(
    "--namespace",
    metavar="NAME",
    callback=_name,
    help="The namespace; default: that of whoever applies the manifests.",
)
@click.option(
    "--port",
    type=click.IntRange(1024, 65535),
    default=2222,
    show_default=True,
    help="The port at which servers listen in their pods.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=STANDARD_OUTPUT,
    show_default=True,
    callback=_new_folder,
    metavar="DIR|-",
    help="A new folder for the manifests, or - for standard output.",
)
@common_options
def command(
    common: Common,
    /,
    spec: str,
    *,
    folder: Path | None,
    checkpoint: str | None,
    emulate: bool,
    kubernetes: bool,
    **place: Any,
) -> int:
    """Write files of SPEC for other programs.

    With --saved-model this is the model that SPEC has trained, with averaged weights if there are any. With
    --kubernetes, --image and --runs these are manifests that run the tasks of its cluster.
    """
    if kubernetes == (folder is not None):
        raise click.UsageError("export needs either --saved-model DIR or --kubernetes")
    _refuse_given(ONLY_MODEL if kubernetes else place, "--saved-model" if kubernetes else "--kubernetes")
    if folder is None:
        return _write_manifests(common, spec, **place)
    loaded = read_spec(spec, common)
    from tfdeploy import api

    api.export(loaded, folder, checkpoint=checkpoint, emulate=emulate, **telling(common))
    say(folder)
    return 0


def _refuse_given(names: Iterable[str], other: str) -> None:
    """Raise UsageError for an option of the command line that belongs to the other way of exporting."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} goes with {other}")


def _write_manifests(common: Common, path: str, *, out: Path, **place: Any) -> int:
    for needed in ("image", "runs"):
        if not place[needed]:
            raise click.UsageError(f"--kubernetes needs --{needed}")
    spec = read_spec(path, common)
    from compiler.checks import check_spec

    wrong = [each for each in check_spec(spec) if each.is_error]
    if wrong:
        raise SpecError(wrong)
    from tfdeploy import kubernetes

    name = place.pop("name") or kubernetes.default_name(spec)
    flags = ("--allow-python",) if common.allow_python else ()
    found = kubernetes.manifests(kubernetes.Deployment(spec, name=name, flags=flags, **place))
    if str(out) == STANDARD_OUTPUT:
        write_result(kubernetes.to_yaml(found.values()))
        return 0
    out.mkdir(parents=True)
    for each, manifest in found.items():
        (out / f"{each}.yaml").write_text(kubernetes.to_yaml([manifest]), encoding="utf-8", newline="")
    say(out)
    return 0
