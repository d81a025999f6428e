"""Writes the folder of a site: the page, the model, the runtime, and a table of what is where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from gradskip_onnx.errors import InputError
from gradskip_onnx.images.read import open_picture
from gradskip_onnx.output.atomic import make_folder, remove_leftovers, write_whole, writing
from gradskip_onnx.output.folder import plan_stems
from gradskip_onnx.output.json_text import encode_json
from gradskip_onnx.version import __version__

from .built_file import BuiltFile, check_size
from .drawing_constants import drawing_constants
from .runtime_files import Runtime

TABLE = "site.json"  # written last: where it is, all is there
PART = 90_000_000  # bytes of a file; GitHub Pages takes files of 100 MB
LARGEST_EXAMPLE = 20_000_000  # bytes of an image


@dataclass(frozen=True, slots=True)
class Site:
    """What was written: the folder, its files and their bytes."""

    folder: Path
    sizes: Mapping[str, int]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.sizes.values())


def write_site(
    built: BuiltFile, runtime: Runtime, folder: Path, *, title: str, examples: Sequence[Path] = (), force: bool = False
) -> Site:
    """Write the site into `folder`; with `force` over an earlier one."""
    check_size(built.size, built.name)
    contents = dict(_contents(built, runtime, title, examples))
    table = folder / TABLE
    if not force and any((folder / name).exists() for name in contents):
        raise InputError(f"output {folder} has a site or files of such names already; choose another, or give --force")
    with writing(folder):
        make_folder(folder)
        remove_leftovers(folder)
        table.unlink(missing_ok=True)
        for name, content in contents.items():
            make_folder((folder / name).parent)
            write_whole(folder / name, content)
    return Site(folder, {name: len(content) for name, content in contents.items()})


def _contents(built: BuiltFile, runtime: Runtime, title: str, examples: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    """The files of a site by their names in it, the table last."""
    for entry in sorted(files(__package__).joinpath("page").iterdir(), key=lambda entry: entry.name):
        yield entry.name, entry.read_bytes()
    for name, content in runtime.files.items():
        yield f"runtime/{name}", content
    pictures = dict(_examples(examples))
    yield from pictures.items()
    parts = dict(_parts(built))
    yield from parts.items()
    yield ".nojekyll", b""  # GitHub Pages leaves files as they are
    table = {
        "title": title,
        "model": {
            "name": built.name,
            "sha256": built.file.sha256(),
            "bytes": built.size,
            "parts": [{"name": name, "bytes": len(content)} for name, content in parts.items()],
        },
        "runtime": {
            "version": runtime.version,
            "files": {name: len(content) for name, content in runtime.files.items()},
        },
        "examples": [{"file": name, "name": Path(name).stem} for name in pictures],
        "drawing": drawing_constants(),
        "made_by": f"gradskip-onnx {__version__}",
    }
    yield TABLE, encode_json(table, indent=None)


def _parts(built: BuiltFile) -> Iterator[tuple[str, bytes]]:
    """The model as one file, or in parts that every host takes."""
    starts = range(0, built.size, PART)
    for number, start in enumerate(starts):
        ending = f".{number}" if len(starts) > 1 else ""
        yield f"model/explained.onnx{ending}", built.file.data[start : start + PART].tobytes()


def _examples(images: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    """Images that visitors can try, as they are."""
    for path, stem in zip(images, plan_stems(images), strict=True):
        encoded = open_picture(path).encoded or b""
        if len(encoded) > LARGEST_EXAMPLE:
            raise InputError(f"example {path}: {len(encoded)} bytes, at most {LARGEST_EXAMPLE}")
        yield f"examples/{stem}{path.suffix.lower()}", encoded
