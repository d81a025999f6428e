"""The output folder of one run: names planned first and given out once, files written together or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradskip_onnx.errors import InputError

from .atomic import temporary_name, write_whole

MAX_STEM = 150  # file systems take names of 255 bytes; a class name and a suffix must fit too
SUFFIXES = (".png", ".npy", ".json")  # of each name; the JSON is written last: where it is, the others are complete


def plan_stems(images: Sequence[Path | str]) -> tuple[str, ...]:
    """A file stem for each image, all different also where upper and lower case are the same."""
    wished = [_safe(Path(image).stem) for image in images]
    counts: dict[str, int] = {}
    for stem in wished:
        counts[stem.casefold()] = counts.get(stem.casefold(), 0) + 1
    taken = set(counts)
    stems, seen = [], set[str]()
    for stem in wished:
        number, name = 1, stem
        while name.casefold() in seen or (number > 1 and name.casefold() in taken):
            number += 1
            name = f"{stem}-{number}"
        seen.add(name.casefold())
        stems.append(name)
    return tuple(stems)


def _safe(stem: str) -> str:
    flat = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in stem).strip(". ")
    return flat.encode()[:MAX_STEM].decode(errors="ignore") or "image"


@dataclass(slots=True)
class Folder:
    """The output folder of one run; a name is given out once."""

    path: Path
    force: bool = False
    given: set[str] = field(default_factory=set)

    def open(self) -> None:
        """Make the folder and try to write in it, before any work is done."""
        probe = self.path / temporary_name()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe.touch(exist_ok=False)
            probe.unlink()
        except OSError as error:
            raise InputError(f"output {self.path}: cannot be written to ({error.strerror or error})") from None

    def claim(self, stems: Iterable[str]) -> None:
        """Refuse names that exist or were given out before."""
        for stem in stems:
            if stem.casefold() in self.given:
                raise InputError(f"output {self.path / stem}: two results of this run would get this name")
            clash = next((path for path in self._files(stem) if path.exists()), None)
            if clash is not None and not self.force:
                raise InputError(f"output {clash} exists; use --force to overwrite or another --output")
            self.given.add(stem.casefold())

    def write(self, stem: str, contents: Mapping[str, bytes]) -> tuple[Path, ...]:
        """The files of a claimed name, a content for each suffix; on failure none of them is left half done."""
        done: list[Path] = []
        try:
            for path in self._files(stem):
                write_whole(path, contents[path.suffix])
                done.append(path)
        except OSError as error:
            if not self.force:
                for path in done:
                    path.unlink(missing_ok=True)
            raise InputError(f"output {self.path / stem}: cannot be written ({error.strerror or error})") from None
        return tuple(done)

    def _files(self, stem: str) -> tuple[Path, ...]:
        return tuple(self.path / (stem + suffix) for suffix in SUFFIXES)
