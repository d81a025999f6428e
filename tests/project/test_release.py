"""The files of a release: locks that hold what is asked for, wheels of the same bytes, a sound bill of materials."""

from __future__ import annotations

import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gradskip_onnx.version import __version__

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def asked_for(*extras: str) -> dict[str, Requirement]:
    """What pyproject.toml asks for, by name."""
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    found = map(Requirement, lines)
    return {canonicalize_name(entry.name): entry for entry in found if entry.name != PROJECT["name"]}


def locked(name: str) -> dict[str, str]:
    text = (ROOT / ".ci" / name).read_text(encoding="utf-8")
    return {canonicalize_name(package): version for package, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.M)}


@pytest.mark.parametrize(
    ("lock", "extras"), [("quick.txt", ("cpu", "quick")), ("all.txt", ("cpu", "export", "quick", "docs", "dev"))]
)
def test_locks_hold_what_is_asked_for(lock: str, extras: tuple[str, ...]):
    pins = locked(lock)

    assert [name for name in asked_for(*extras) if name not in pins] == []
    assert [name for name, entry in asked_for(*extras).items() if pins[name] not in entry.specifier] == []


def test_every_entry_of_the_quick_lock_has_hashes():
    text = (ROOT / ".ci" / "quick.txt").read_text(encoding="utf-8")
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.M)[1:]

    assert len(entries) == len(locked("quick.txt")) > 10
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)


def test_the_workflow_uses_the_locks():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")

    assert "pip install --require-hashes -r .ci/quick.txt" in text
    assert "PIP_CONSTRAINT: ${{ github.workspace }}/.ci/all.txt" in text


def wheel_of_metadata(folder: Path) -> Path:
    """A wheel with nothing but its metadata."""
    needed = [*PROJECT["dependencies"], *(f"{line}; extra == 'cpu'" for line in EXTRAS["cpu"])]
    needed += [f"{line}; extra == 'export'" for line in EXTRAS["export"]]
    lines = [
        "Metadata-Version: 2.4",
        "Name: gradskip-onnx",
        f"Version: {__version__}",
        "License-Expression: Apache-2.0",
    ]
    path = folder / f"gradskip_onnx-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        text = "\n".join([*lines, *(f"Requires-Dist: {line}" for line in needed), "", ""])
        archive.writestr(f"gradskip_onnx-{__version__}.dist-info/METADATA", text)
    return path


def test_bill_of_materials(tmp_path: Path):
    """The wheel with its hash, all that an install brings and nothing else, and every reference leads somewhere."""
    bill = runpy.run_path(str(ROOT / ".ci" / "sbom.py"))["bill"]
    wheel = wheel_of_metadata(tmp_path)
    document: dict[str, Any] = bill(wheel)
    root, components = document["metadata"]["component"], {entry["name"]: entry for entry in document["components"]}
    known = {root["bom-ref"], *(entry["bom-ref"] for entry in components.values())}

    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert root["hashes"][0]["content"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert (root["version"], root["licenses"]) == (__version__, [{"expression": "Apache-2.0"}])
    assert components.keys() >= asked_for("cpu").keys() | {"protobuf"}
    assert components.keys().isdisjoint({"torch", "timm", "gradskip-onnx"})
    assert {entry["ref"] for entry in document["dependencies"]} == known
    assert {on for entry in document["dependencies"] for on in entry["dependsOn"]} <= known
    assert all(entry["licenses"] for entry in components.values())
    assert bill(wheel) == document


BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.mark.slow
def test_wheels_have_the_same_bytes_twice(tmp_path: Path):
    """Two folders, other dates of files, one SOURCE_DATE_EPOCH."""
    hashes = set()
    for at, place in enumerate((tmp_path / "once", tmp_path / "and" / "once" / "more")):
        for name in ("gradskip_onnx", "cli", "exporters"):
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copyfile(ROOT / name, place / name)
        for path in place.rglob("*"):
            os.utime(path, (1_700_000_000 + 1000 * at,) * 2)
        environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
        words = [sys.executable, "-c", BUILD, str(place / "dist")]
        (place / "dist").mkdir()
        subprocess.run(words, cwd=place, env=environment, capture_output=True, check=True)
        (wheel,) = (place / "dist").glob("*.whl")
        hashes.add(hashlib.sha256(wheel.read_bytes()).hexdigest())

    assert len(hashes) == 1
