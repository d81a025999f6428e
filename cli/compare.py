"""gradskip-onnx compare: do two files, devices, methods or audits decide alike, and for the same reasons?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradskip_onnx.errors import InputError

from .audit_findings import policy_option
from .evaluation_options import (
    SOME_FAILED,
    RecordedCommand,
    command_line,
    data_options,
    score_option,
    select,
    settings_options,
)
from .options import read_device, stack

if TYPE_CHECKING:
    from PIL import Image

    from gradskip_onnx.audit.reading import Audit
    from gradskip_onnx.comparison.compare import Comparison
    from gradskip_onnx.comparison.sides import Side
    from gradskip_onnx.datasets import Dataset

    from .console import Terminal

EXAMPLES = """\b
Examples:
  gradskip-onnx compare model.onnx model.int8.onnx photos -o comparison
  gradskip-onnx compare model.onnx model.onnx photos --method-a gradskip+ --method-b rollout -o methods
  gradskip-onnx compare model.onnx model.onnx photos --device-a cpu --device-b cuda -o devices
  gradskip-onnx compare model.onnx model.int8.onnx photos --policy int8.toml -o comparison
  gradskip-onnx compare audit-of-may audit-of-june photos -o drift        (two audits of the same images)
"""


def _read_device(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return None if value is None else read_device(ctx, param, value)


side_options = stack(
    click.option("--method", default="gradskip+", show_default=True, metavar="NAME[OPTION=VALUE,...]",
                 help="The method on both sides."),
    click.option("--method-a", metavar="NAME[...]", help="Another method for A."),
    click.option("--method-b", metavar="NAME[...]", help="Another method for B."),
    click.option("--device-a", callback=_read_device, metavar="DEVICE", help="Another --device for A."),
    click.option("--device-b", callback=_read_device, metavar="DEVICE", help="Another --device for B."),
    click.option("--own-class", is_flag=True, help="Each side explains the class that it predicts itself.  [default: "
                 "both explain the class that A predicts]"),
    score_option,
)  # fmt: skip


@click.command(epilog=EXAMPLES, cls=RecordedCommand)
@click.argument("a")
@click.argument("b")
@click.argument("data", metavar="[DATA|planted:COUNT]", required=False)
@click.option("-o", "--output", default="gradskip-comparison", show_default=True, metavar="DIR",
              help="Folder of the comparison, with the audits of both sides in a/ and b/.")  # fmt: skip
@side_options
@policy_option
@data_options
@settings_options
def compare(a: str, b: str, data: str | None, **flags: Any) -> None:
    """Compare A with B on every image of DATA: class flips, and how alike the maps are, with intervals and pictures.

    A and B are model files or folders of `audit`; models are audited first, into DIR/a and DIR/b, and a run that was
    stopped goes on. Both maps of an image explain the class that A predicts, unless --own-class is given. DATA is
    anything that `evaluate` takes; between two audits it only serves the pictures.
    """
    from gradskip_onnx.audit.place import open_place
    from gradskip_onnx.comparison.compare import NAMES
    from gradskip_onnx.comparison.files import write_comparison
    from gradskip_onnx.comparison.page import side_names
    from gradskip_onnx.comparison.sides import facts_of
    from gradskip_onnx.findings.drift import require_comparable
    from gradskip_onnx.findings.policy import read_policy
    from gradskip_onnx.findings.violations import check, require_classes

    from .audit_findings import findings_table, print_verdict
    from .console import Terminal

    policy = None if flags["policy"] is None else read_policy(flags["policy"], NAMES, ("findings",))
    terminal = Terminal(flags["verbose"], flags["quiet"], flags["as_json"])
    dataset = None if data is None else select(data, flags)
    place = open_place(flags["output"])
    sides = tuple(_side(path, dataset, place.name, name, terminal, flags) for path, name in ((a, "a"), (b, "b")))
    first, second = (facts_of(side) for side in sides)
    require_comparable(first, second, ("A", "B"))  # before anything is audited
    if policy is not None:
        require_classes(policy, first["labels"] or (), first["classes"])
    compared = _compare((sides[0], sides[1]), terminal, own_class=flags["own_class"])
    names = side_names(compared.first, compared.second)
    violations = () if policy is None else check(policy, compared.found, compared.first)
    place.make()
    written = write_comparison(
        place, compared, names,
        policy=policy, violations=violations, open_image=_opener(dataset), command=command_line(),
    )  # fmt: skip
    _print_sides(compared, names, terminal)
    terminal.table(findings_table(compared.found.findings, {}))
    terminal.document({"folder": place.name, "files": written, "images": compared.found.images}, single=True)
    terminal.print(f"page      {place.name}/{written[-1] if policy is None else written[-2]}", style="bold")
    codes = [0 if policy is None else print_verdict(violations, terminal), _failures(compared, terminal)]
    if any(codes):
        click.get_current_context().exit(min(filter(None, codes)))


def _side(
    path: str, dataset: Dataset | None, folder: str, name: str, terminal: Terminal, flags: Mapping[str, Any]
) -> Side:
    """A finished audit, or a model that is to be audited."""
    from gradskip_onnx.addresses import is_remote
    from gradskip_onnx.audit.place import open_place
    from gradskip_onnx.audit.reading import FACTS, read_audit
    from gradskip_onnx.audit.settings import AuditSettings, CheckSettings
    from gradskip_onnx.comparison.sides import ToAudit

    from .audit import unused_labels
    from .explain_request import load_explainer
    from .listing import read_methods
    from .report import report_model

    if open_place(path).exists(FACTS):
        return read_audit(path)
    if is_remote(path) or Path(path).is_dir():
        raise InputError(f"{path}: neither a model file nor the folder of an audit; {FACTS} is missing")
    if dataset is None:
        raise InputError(f"{path} is a model: name the images to explain, as in `compare A.onnx B.onnx photos`")
    methods = read_methods(flags[f"method_{name}"] or flags["method"])
    if len(methods) != 1:
        raise InputError(f"--method-{name}: got {len(methods)} methods, one is compared with one")
    explainer = load_explainer(Path(path), {**flags, "device": flags[f"device_{name}"] or flags["device"]})
    report_model(terminal, explainer)
    terminal.warn(unused_labels(dataset, explainer))
    settings = AuditSettings(
        method=methods[0],
        score=flags["score"],
        target=flags["target"],
        check=CheckSettings(draws=1),
        batch_size=flags["batch_size"],
    )
    return ToAudit(explainer, dataset, open_place(f"{folder}/{name}"), settings)


def _compare(sides: tuple[Side, Side], terminal: Terminal, *, own_class: bool) -> Comparison:
    """Audit what is not audited yet, then compare, each with a progress bar."""
    from gradskip_onnx.comparison.compare import compare as compare_audits
    from gradskip_onnx.comparison.sides import audited, for_the_classes_of

    first = _audit(sides[0], terminal, audited)
    second = _audit(sides[1] if own_class else for_the_classes_of(first, sides[1]), terminal, audited)
    with terminal.progress(min(first.images, second.images)) as bar:
        return compare_audits(first, second, step=bar)


def _audit(side: Side, terminal: Terminal, audited: Callable[..., Audit]) -> Audit:
    from gradskip_onnx.audit.reading import Audit

    from .audit import counting

    if isinstance(side, Audit):
        return audited(side)
    count = len(side.dataset.entries)
    with ExitStack() as stack_:
        bar = stack_.enter_context(terminal.progress(count))
        stack_.callback(side.explainer.close)  # its sessions take memory that the other side needs
        return audited(side, lambda left: counting(bar, count - left))


def _opener(dataset: Dataset | None) -> Callable[[str], Image.Image] | None:
    """A way to open an image of the data by its name in an audit."""
    from gradskip_onnx.audit.private import as_unicode

    if dataset is None:
        return None
    entries = {as_unicode(entry.id): entry for entry in dataset.entries}
    return lambda name: entries[name].read()


def _failures(compared: Comparison, terminal: Terminal) -> int:
    """Name images that a side could not explain; exit code 6 if there are any."""
    from .audit_summary import print_failures

    audits, known = (compared.first, compared.second), set[str]()
    for audit in audits:
        known |= print_failures(audit, terminal, known)
    return SOME_FAILED if known else 0


def _print_sides(compared: Comparison, names: tuple[str, str], terminal: Terminal) -> None:
    for side, name in zip("AB", names, strict=True):
        terminal.print(f"{side}         {name.removeprefix(f'{side}: ')}")
    left_out = compared.pairs.left_out
    terminal.print(f"images    {compared.found.images} explained by both" + (f", {left_out} not" if left_out else ""))
    if not compared.pairs.same_target.all():
        terminal.print("note      where the predicted classes differ, each map explains its own")
    terminal.print("")
