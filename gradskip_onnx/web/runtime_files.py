"""Finds the files of ONNX Runtime Web: in a folder, in the cache, or from the npm registry, checked by their hash."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gradskip_onnx.cache.folder import CacheFolder
from gradskip_onnx.errors import InputError
from gradskip_onnx.limits import RUNTIME_BYTES
from gradskip_onnx.untrusted_files import read_bounded, shortened

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
# Of the archive on the registry; from `npm view onnxruntime-web@1.30.0 dist.integrity`.
INTEGRITY = "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
VARIABLE = "GRADSKIP_ONNXRUNTIME_WEB"  # environment variable: the folder of an unpacked package

# What a page loads for each way of computing: the script, the loader of its WebAssembly, and that.
WASM = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
WEBGPU = ("ort.webgpu.min.mjs", "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm")

SECONDS = 600  # for npm


@dataclass(frozen=True, slots=True, eq=False)
class Runtime:
    """The files of ONNX Runtime Web that a site needs, by name."""

    version: str
    files: Mapping[str, bytes]
    origin: str  # where they were found, in words


def find_runtime(
    folder: Path | None, *, webgpu: bool, cache: CacheFolder | None, tell: Callable[[str], None] = lambda _: None
) -> Runtime:
    """The runtime in `folder`, in that of the environment, in the cache, or of the npm registry; `tell` says what."""
    names = WASM + WEBGPU if webgpu else WASM
    named = os.environ.get(VARIABLE)
    if folder is None and named:
        folder = Path(named)
    if folder is not None:
        return _in_folder(folder, names)
    key = {"package": PACKAGE, "version": VERSION, "integrity": INTEGRITY}
    archive = cache.get(key) if cache else None
    origin = "cache"
    if archive is None:
        tell(f"fetching {PACKAGE} {VERSION} from the npm registry")
        archive, origin = _from_npm(), "npm"
        if cache:
            cache.put(key, archive)
    _check(archive)
    return Runtime(VERSION, _unpacked(archive, names), origin)


def _in_folder(folder: Path, names: Iterable[str]) -> Runtime:
    """The files of an unpacked package, of whatever version: who names a folder trusts it."""
    described = folder / "package.json"
    try:
        package = json.loads(read_bounded(described, RUNTIME_BYTES))
        name, version = package["name"], str(package["version"])
    except (ValueError, KeyError, TypeError):
        name, version = None, ""
    except InputError:
        raise InputError(f"{shortened(folder)} is no unpacked npm package: it has no package.json") from None
    if name != PACKAGE:
        raise InputError(f"{shortened(folder)} holds the package {name!r:.60}, not {PACKAGE}")
    return Runtime(version, {each: read_bounded(folder / "dist" / each, RUNTIME_BYTES) for each in names}, str(folder))


def _from_npm() -> bytes:
    """The archive of the package, by `npm pack`."""
    npm = shutil.which("npm")
    ways = f"name an unpacked package {PACKAGE} {VERSION} by --runtime FOLDER or {VARIABLE}"
    if npm is None:
        raise InputError(f"{PACKAGE} is not at hand and npm is not installed; install npm (Node.js), or {ways}")
    with tempfile.TemporaryDirectory(prefix="gradskip-") as scratch:
        words = [npm, "pack", f"{PACKAGE}@{VERSION}", "--silent", "--ignore-scripts", "--pack-destination", scratch]
        try:
            done = subprocess.run(words, cwd=scratch, capture_output=True, text=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as failure:
            raise InputError(f"npm could not fetch {PACKAGE} {VERSION} ({failure}); {ways}") from None
        found = sorted(Path(scratch).glob("*.tgz"))
        if done.returncode or not found:
            said = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
            raise InputError(f"npm could not fetch {PACKAGE} {VERSION} ({said[-1]:.200}); {ways}")
        return read_bounded(found[0], RUNTIME_BYTES)


def _check(archive: bytes) -> None:
    """Raise InputError for an archive that is not the one this version was made with."""
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if found != INTEGRITY:
        raise InputError(f"{PACKAGE} {VERSION} has another content than expected ({found}); it is not used")


def _unpacked(archive: bytes, names: Iterable[str]) -> dict[str, bytes]:
    """Some files of the archive, in memory: nothing is written where the archive says."""
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as package:
        wanted = {f"package/dist/{name}": name for name in names}
        for member in package:
            content = package.extractfile(member) if member.isfile() and member.name in wanted else None
            if content is not None:
                files[wanted[member.name]] = content.read(RUNTIME_BYTES.amount)
    return files
