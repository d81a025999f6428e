"""Checks the folder of an audit against its manifest by hashes alone; no model is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gradskip_onnx.audit.parts import FOLDER, part_path
from gradskip_onnx.audit.place import Place
from gradskip_onnx.audit.reading import FACTS, read_facts
from gradskip_onnx.errors import GradskipError, InputError, VerificationError
from gradskip_onnx.output.json_text import plain

from .check import Check, holds
from .hashes import START, next_link, sha256_if_there
from .manifest import (
    MANIFEST,
    SIGNATURE,
    Manifest,
    other_files,
    read_manifest,
    sealed,
    short_facts,
)
from .parts import CONTENT, content_of
from .signing import check_signature
from .sources import check_images, check_model

ANCHORED = "it is the manifest that was {how}: what it describes is what was audited then"
LOOSE = (
    "files, parts and manifest agree with each other. Whoever can write to this folder could have made all of them "
    "anew: compare the hash of the manifest with one that was noted elsewhere (--expect HASH), or check a signature "
    "(--public-key KEY)"
)


@dataclass(frozen=True, slots=True)
class Verification:
    """What was asked for beside the folder itself."""

    place: Place
    expected: str | None = None  # SHA-256 of the manifest
    public_key: Path | None = None
    model: Path | None = None
    data: str | None = None
    sources: bool = True  # whether the model and the images are looked at
    step: Callable[[str], None] = lambda _: None  # called after each file and image


@dataclass(frozen=True, slots=True)
class Verified:
    """The checks in the order in which they were made, and what they prove together."""

    manifest: str  # SHA-256
    checks: tuple[Check, ...]
    proves: str

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.state == "failed")


def verify(asked: Verification) -> Verified:
    """All checks of a folder; one that fails does not keep the others from being made."""
    try:
        manifest = read_manifest(asked.place)
    except InputError as error:
        if not asked.place.exists(MANIFEST):
            raise
        return Verified("", (Check(MANIFEST, "failed", str(error).removeprefix(f"{MANIFEST}: ")),), "")
    stages = (*STAGES, *SOURCES) if asked.sources else STAGES
    checks = tuple(check for stage in stages for check in stage(asked, manifest))
    return Verified(manifest.sha256, checks, _proves(asked))


def count_of(place: Place, data: str | None) -> int:
    """How many files and images `verify` reads: the length of its progress bar."""
    try:
        images = int(read_manifest(place).document["images"]["count"]) if data is not None else 0
    except InputError:  # which `verify` will say
        images = 0
    return len(place.files()) + len(place.files(FOLDER)) + images


def _manifest(asked: Verification, manifest: Manifest) -> Iterator[Check]:
    if asked.expected is None:
        yield Check(MANIFEST, "ok", "has the hash that it states")
    else:
        expected = asked.expected.lower().removeprefix("sha256:")
        state = holds(MANIFEST, manifest.sha256, expected, "has the expected hash")
        text = state.text.replace("the manifest says", "expected") if state.state == "failed" else state.text
        yield Check(MANIFEST, state.state, text)


def _signature(asked: Verification, manifest: Manifest) -> Iterator[Check]:
    signed = asked.place.exists(SIGNATURE)
    if asked.public_key is None:
        if signed:
            yield Check(SIGNATURE, "not checked", "give --public-key")
        return
    if not signed:
        yield Check(SIGNATURE, "failed", "missing: the manifest is not signed")
        return
    with asked.place.open(SIGNATURE) as stream:
        signature = stream.read()
    try:
        check_signature(sealed(manifest.document), signature, asked.public_key)
        yield Check(SIGNATURE, "ok", "made with the key that belongs to the public key given")
    except VerificationError as error:
        yield Check(SIGNATURE, "failed", str(error))


def _files(asked: Verification, manifest: Manifest) -> Iterator[Check]:
    """Every file but the parts; one that came later is named, because nothing vouches for it."""
    known: Mapping[str, str] = manifest.document["files"]
    for name, digest in known.items():
        yield holds(name, sha256_if_there(asked.place, name), digest)
        asked.step(name)
    for name in other_files(asked.place):
        if name not in known:
            yield Check(name, "not checked", "not in the manifest: it came later, and nothing vouches for it")


def _facts(asked: Verification, manifest: Manifest) -> Iterator[Check]:
    """What the manifest says of the audit is what audit.json says."""
    recorded = manifest.document["audit"]
    try:
        facts = plain(short_facts(read_facts(asked.place)))
    except (GradskipError, KeyError, TypeError):
        return  # its hash has failed
    assert isinstance(facts, dict)
    differing = sorted(key for key in {*facts, *recorded} if facts.get(key) != recorded.get(key))
    if differing:
        yield Check(FACTS, "failed", f"differs from what the manifest says of it: {', '.join(differing)}")


def _parts(asked: Verification, manifest: Manifest) -> Iterator[Check]:
    """Each part by its own hash, then their order and number by the chain."""
    link, listed = START, manifest.document["parts"]
    for part in listed:
        file = part_path(part["number"])
        check = holds(file, sha256_if_there(asked.place, file), part["sha256"])
        if check.state == "ok":
            said = {key: part[key] for key in CONTENT}
            check = holds(file, content_of(asked.place, part["number"]), said)
        yield check
        asked.step(file)
        link = next_link(link, part["sha256"])
    yield holds("chain of parts", link, manifest.document["chain"], f"{len(listed)} links")
    known = {part_path(part["number"]) for part in listed}
    for name in asked.place.files(FOLDER):
        if f"{FOLDER}/{name}" not in known:
            yield Check(f"{FOLDER}/{name}", "failed", "not in the manifest")


def _model(asked: Verification, manifest: Manifest) -> Iterator[Check]:
    yield from check_model(asked.model, manifest.document["audit"]["model"])


def _images(asked: Verification, manifest: Manifest) -> Iterator[Check]:
    """The images, by the facts of the manifest; the folder they were in is in audit.json, if that is unchanged."""
    facts = manifest.document["audit"]
    if sha256_if_there(asked.place, FACTS) == manifest.document["files"].get(FACTS):
        facts = read_facts(asked.place)
    yield from check_images(asked.place, facts, asked.data, manifest.document, asked.step)


Stage = Callable[[Verification, Manifest], Iterator[Check]]
STAGES: tuple[Stage, ...] = (_manifest, _signature, _files, _facts, _parts)
SOURCES: tuple[Stage, ...] = (_model, _images)


def _proves(asked: Verification) -> str:
    how = ["expected"] if asked.expected else []
    how += ["signed"] if asked.public_key else []
    return ANCHORED.format(how=" and ".join(how)) if how else LOOSE
