"""Rows of installed packages are found, loaded late, and harm nobody when they are broken."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from gradskip_onnx import datasets
from gradskip_onnx.errors import InputError
from gradskip_onnx.evaluation import choose_metric, find_metric
from gradskip_onnx.imports import plugins
from gradskip_onnx.imports.plugins import PluginError, PluginWarning
from gradskip_onnx.methods import METHODS, choose_method, every_method, find_method
from tests.support.command_line import run
from tests.support.evaluation_data import FLAGS, explainer, model_bytes, pictures
from tests.support.fake_packages import METHOD, install, install_method


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder on the path into which packages are laid; they are forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    plugins._by_name.cache_clear()
    before = set(sys.modules)
    yield folder
    plugins._by_name.cache_clear()
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_a_method_of_a_package_explains(site: Path):
    install_method(site, "theirs-corner", "theirs")
    found = explainer().explain(np.zeros((1, 3, 32, 32), np.float32), 2, method="theirs", level=3.0)[0]

    assert found.relevance.scores[0, 0] == 3
    assert found.relevance.method == "theirs"
    assert "method of the package theirs-corner 1.0" in found.relevance.notes
    with pytest.raises(InputError, match="method theirs option level: got -1, allowed: a number at least 0"):
        choose_method("theirs", level=-1)


def test_a_known_name_looks_for_no_package(monkeypatch: pytest.MonkeyPatch):
    """Start-up does not grow with what is installed."""

    def unasked(**_: str):
        raise AssertionError("the metadata of packages was read")

    plugins._by_name.cache_clear()
    monkeypatch.setattr(plugins, "entry_points", unasked)

    assert find_method("gradskip+").name == "gradskip+"
    assert find_metric("insertion").name == "insertion"
    assert choose_method("rise").package == ""
    assert run("methods", "rise").exit_code == 0


def test_unused_packages_are_not_imported(site: Path):
    install_method(site, "theirs-a", "a")
    install_method(site, "theirs-b", "b")
    find_method("b")

    assert "theirs_b" in sys.modules
    assert "theirs_a" not in sys.modules


BROKEN = {
    "cannot be imported": ("import not_installed_anywhere", "theirs-broken 1.0 cannot be loaded: ModuleNotFoundError"),
    "ends the program": ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3"),
    "has no such row": ("", "cannot be loaded: AttributeError"),
    "is no method": ("ROW = 7", "ROW is a int, expected a Method"),
    "has another name": (METHOD.format(name="other"), "the row calls itself 'other'"),
    "has options that are no dataclass": (
        METHOD.format(name="theirs").replace("@dataclass(frozen=True)", ""), "cannot be used: TypeError"
    ),
    "has options without defaults": (
        METHOD.format(name="theirs").replace(" = option(1.0, ", "  # "), "cannot be used: TypeError"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_package_is_named_and_harms_nobody(site: Path, name: str):
    code, message = BROKEN[name]
    install_method(site, "theirs-broken", "theirs", code)
    install_method(site, "theirs-sound", "sound")
    with pytest.raises(PluginError, match=f"method 'theirs' of the package theirs-broken.*{message.split('1.0 ')[-1]}"):
        find_method("theirs")
    with pytest.warns(PluginWarning, match=r"theirs-broken 1\.0.*left out") as caught:
        names = [row.name for row in every_method()]

    assert names == sorted({*METHODS, "sound"})
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)


def test_names_of_ours_are_not_replaced(site: Path):
    ours = METHODS["rise"]
    install_method(site, "theirs-rise", "rise")

    assert find_method("rise") is ours
    with pytest.warns(PluginWarning, match=r"'rise' of the package theirs-rise 1\.0: we have one of this name"):
        rows = {row.name: row for row in every_method()}
    assert rows["rise"] is ours


def test_two_packages_with_one_name_are_refused(site: Path):
    install_method(site, "theirs-one", "theirs")
    install_method(site, "theirs-two", "theirs")
    with pytest.raises(PluginError, match=r"'theirs' is brought by theirs-(one|two) 1\.0 and theirs-(one|two) 1\.0"):
        find_method("theirs")


@pytest.mark.parametrize("name", ["all", "a[b]", "a,b"])
def test_names_that_cannot_be_typed_are_refused(site: Path, name: str):
    install_method(site, "theirs-odd", name)
    with pytest.raises(PluginError, match="a name has letters"):
        find_method(name)


WRONG = {
    "raises": ("raise KeyError('lost')", "method theirs of the package theirs-wrong 1.0 failed: KeyError: 'lost'"),
    "gives no relevance": ("return scores", "it returned a ndarray, expected a Relevance"),
    "gives NaN": ("return Relevance(scores * np.nan)", "scores must be finite numbers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_method_that_fails_names_its_package(site: Path, name: str):
    line, message = WRONG[name]
    install_method(
        site, "theirs-wrong", "theirs", METHOD.format(name="theirs").replace("return Relevance(scores)", line)
    )
    with pytest.raises(PluginError) as caught:
        explainer().explain(np.zeros((1, 3, 32, 32), np.float32), 2, method="theirs")

    assert "theirs-wrong 1.0" in str(caught.value)
    assert message in str(caught.value)


METRIC = """
from dataclasses import dataclass
from gradskip_onnx.plugins import ImageMetric, Measured

@dataclass(frozen=True)
class Options:
    pass

def insertion(sample, saliency, score, options):  # called like one of ours
    {line}

ROW = ImageMetric(name="theirs", summary="a test", better="higher", span=(0.0, 1.0), options=Options,
                  measure=insertion, passes=lambda options: 0, terms=("value",))
"""


def evaluated(folder: Path) -> Result:
    """`evaluate` with a metric of ours and theirs on two pictures, into out/."""
    (folder / "m.onnx").write_bytes(model_bytes())
    words = ("--methods", "rollout", "--metrics", "insertion[steps=4],theirs", "-o", folder / "out")
    return run("evaluate", folder / "m.onnx", pictures(folder / "data", 2), *words, *FLAGS)


def test_a_metric_of_a_package_is_measured_beside_ours(site: Path, tmp_path: Path):
    """A function called like one of ours does not take its results from the ledger."""
    install(
        site, "theirs-metric", {"metrics": {"theirs": "ROW"}}, METRIC.format(line='return Measured({"value": 0.25})')
    )
    result = evaluated(tmp_path)

    assert result.exit_code == 0, result.output
    assert "0.250" in result.stdout
    measures = (tmp_path / "out" / "results.jsonl").read_text(encoding="utf-8")
    assert '"theirs_metric.insertion"' in measures
    assert choose_metric("theirs").label == "theirs"


FAULTS = {
    'raise ValueError("no")': "metric theirs of the package theirs-metric 1.0 failed: ValueError: no",
    "return Measured({})": "metric theirs of the package theirs-metric 1.0 failed: KeyError: 'value'",
    'return Measured({"value": float("nan")})': "metric theirs is nan for this map",
}


@pytest.mark.parametrize("line", FAULTS)
def test_a_metric_that_fails_stops_nothing(site: Path, tmp_path: Path, line: str):
    install(site, "theirs-metric", {"metrics": {"theirs": "ROW"}}, METRIC.format(line=line))
    result = evaluated(tmp_path)

    assert result.exit_code == 6
    assert FAULTS[line] in result.stderr
    assert (tmp_path / "out" / "report.html").exists()


LAYOUT = """
from pathlib import Path
from gradskip_onnx.plugins import Dataset, Layout, file_entry
def load(request):
    paths = sorted(request.path.glob("*.png"))
    return Dataset("theirs", request.where, tuple(file_entry(path, request.path, 1) for path in paths))
ROW = Layout("theirs", "a test", "label", lambda where: (Path(where) / "theirs.txt").exists(), load)
"""


def test_a_layout_of_a_package_is_detected_before_folder(site: Path, tmp_path: Path):
    install(site, "theirs-layout", {"datasets": {"theirs": "ROW"}}, LAYOUT)
    plain, marked = pictures(tmp_path / "plain", 2), pictures(tmp_path / "marked", 2)
    (marked / "theirs.txt").touch()

    assert datasets.load(str(plain)).layout == "folder"
    assert datasets.load(str(marked)).layout == "theirs"
    assert datasets.load(str(marked), "folder").layout == "folder"
    with pytest.raises(InputError, match="not of layout theirs"):
        datasets.load(str(plain), "theirs")


def test_the_listing_has_theirs_and_says_what_is_broken(site: Path):
    install_method(site, "theirs-sound", "sound")
    install_method(site, "theirs-broken", "theirs", "import not_installed_anywhere")
    result = run("methods")

    assert result.exit_code == 0
    assert "sound" in result.stdout
    assert "theirs" not in result.stdout
    (line,) = [line for line in result.stderr.splitlines() if line]
    assert line.startswith("warning: method 'theirs' of the package theirs-broken 1.0 cannot be loaded")
    assert "theirs-sound 1.0" in run("methods", "sound").stdout


def test_a_score_of_a_package_is_not_kept_in_the_cache(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its code is not in the key: a new version would be answered with the graph of the old one."""
    monkeypatch.setenv("GRADSKIP_CACHE", str(tmp_path / "cache"))
    code = METHOD.format(name="theirs").replace("Needs(), run", "Needs(tokens_in=model.last_block), run")
    code = code.replace("lambda options: Cost(1))", "lambda options: Cost(1), seed=lambda options: seed)")
    code += "\nfrom gradskip_onnx.autodiff.scores.seeds import probability\n"
    code += "def seed(emit, logits, target, region=None):\n    return probability(emit, logits, target, region)\n"
    install_method(site, "theirs-seed", "theirs", code)
    model = explainer()
    model.explain(np.zeros((1, 3, 32, 32), np.float32), 2, method="theirs")
    kept = {path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    model.explain(np.zeros((1, 3, 32, 32), np.float32), 2, method="gradskip")
    more = {path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()}

    assert len(more) == len(kept) + 1  # ours is kept, theirs was not
    assert len(kept) <= 1 + sum("lock" in name for name in kept)  # the facts about the file


def test_public_names_exist_and_are_looked_up_late():
    code = (
        "import sys, gradskip_onnx.plugins as face\n"
        "assert not {'numpy', 'onnx', 'PIL'} & set(sys.modules), sys.modules.keys()\n"
        "from gradskip_onnx.plugins import *\n"
        "assert sorted(face._HOMES) == sorted(face.__all__)\n"
        "print(Method.__name__, ImageMetric.__name__, Layout.__name__)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["Method", "ImageMetric", "Layout"]


def test_without_packages_there_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [row.name for row in every_method()] == sorted(METHODS)
