"""The bill of materials of a wheel, CycloneDX 1.6 as JSON: what it is, and what an install brings along.

python .ci/sbom.py dist/gradskip_onnx-VERSION-py3-none-any.whl > dist/gradskip_onnx-VERSION-py3-none-any.cdx.json

Run it where the wheel is installed with its extra [cpu]: the versions are those of this environment. The same wheel and
environment give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import sys
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from email import message_from_string
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("", "cpu")  # of the wheel: what everybody needs, and the runtime that most choose
NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # of URLs (RFC 9562)


def bill(wheel: Path) -> dict[str, Any]:
    """The document for a wheel."""
    data = wheel.read_bytes()
    own = described_in(wheel)
    root = component(own, "application") | {"hashes": [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]}
    first = sorted(required(own.get_all("Requires-Dist") or (), EXTRAS))
    found = closure(first)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, hashlib.sha256(data).hexdigest())}",
        "version": 1,
        "metadata": {"component": root},
        "components": [component(metadata.metadata(name), "library") for name in found],
        "dependencies": [
            {"ref": root["bom-ref"], "dependsOn": [reference(name) for name in first]},
            *({"ref": reference(name), "dependsOn": [reference(on) for on in uses]} for name, uses in found.items()),
        ],
    }


def described_in(wheel: Path) -> Message:
    """The METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (entry for entry in archive.namelist() if entry.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode("utf-8"))


def required(lines: Iterable[str], extras: Iterable[str]) -> Iterator[str]:
    """The names of the packages that are needed here, of lines such as `numpy>=1.26; extra == "cpu"`."""
    for requirement in map(Requirement, lines):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            yield canonicalize_name(requirement.name)


def closure(names: Iterable[str]) -> dict[str, list[str]]:
    """Everything that these packages need, in order of name, each with what it needs itself."""
    found: dict[str, list[str]] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = sorted(set(required(metadata.requires(name) or (), ("",))))
            waiting += found[name]
    return dict(sorted(found.items()))


def component(package: Any, kind: str) -> dict[str, Any]:
    """A package as a component; the licence is quoted as its metadata states it."""
    name, version = canonicalize_name(package["Name"]), package["Version"]
    purl = f"pkg:pypi/{name}@{version}"
    found = {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if expression := package.get("License-Expression"):
        return found | {"licenses": [{"expression": expression}]}
    stated = (package.get("License") or "").strip().partition("\n")[0]
    classes = [line.rpartition(" :: ")[2] for line in package.get_all("Classifier") or () if line.startswith("License")]
    names = [stated] if 0 < len(stated) < 60 else classes
    return found | {"licenses": [{"license": {"name": name}} for name in names]} if names else found


def reference(name: str) -> str:
    return f"pkg:pypi/{name}@{metadata.version(name)}"


if __name__ == "__main__":
    print(json.dumps(bill(Path(sys.argv[1])), indent=2, sort_keys=True))
