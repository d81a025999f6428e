"""The output folder of one run: each name is claimed once, and its files are written together or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradskip_onnx.errors import InputError
from gradskip_onnx.untrusted_files import shortened

from .atomic import make_folder, remove_leftovers, temporary_name, write_whole

MAX_STEM = 150  # file systems take names of 255 bytes; a class name and a suffix must fit too
KINDS = ("png", "npy", "json")  # of files of a stem; the JSON is last: where it exists, the others are complete


def plan_stems(images: Sequence[Path | str]) -> tuple[str, ...]:
    """One file stem per image, all different even on file systems that ignore case."""
    originals = [_safe(Path(image).stem) for image in images]
    reserved = {stem.casefold() for stem in originals}  # a numbered stem must not take the stem of another image
    stems, used = [], set[str]()
    for stem in originals:
        number, name = 1, stem
        while name.casefold() in used or (number > 1 and name.casefold() in reserved):
            number += 1
            name = f"{stem}-{number}"
        used.add(name.casefold())
        stems.append(name)
    return tuple(stems)


def _safe(stem: str) -> str:
    flat = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in stem).strip(". ")
    return flat.encode()[:MAX_STEM].decode(errors="ignore") or "image"


@dataclass(slots=True)
class Folder:
    """The output folder of one run and the stems claimed in it, in lower case."""

    path: Path
    force: bool = False
    claimed: set[str] = field(default_factory=set)
    ours: set[str] = field(default_factory=set)  # stems whose files a run that was stopped may have written

    def open(self) -> None:
        """Create the folder and check that it is writable, before any work is done."""
        probe = self.path / temporary_name()
        try:
            make_folder(self.path)
            probe.touch(exist_ok=False)
            probe.unlink()
            remove_leftovers(self.path)
        except OSError as error:
            raise InputError(
                f"output {shortened(self.path)}: cannot be written to ({error.strerror or error})"
            ) from None

    def claim(self, stems: Iterable[str], *, again: bool = False) -> None:
        """Reserve stems; raises InputError for one claimed before, or whose files exist.

        Files that exist are allowed with `force`, and with `again`: an earlier run of the same began to write them.
        """
        for stem in stems:
            if stem.casefold() in self.claimed:
                raise InputError(f"output {self.path / stem}: two results of this run would get this name")
            clash = next((path for path in self._files(stem) if path.exists()), None)
            if clash is not None and not (self.force or again):
                raise InputError(f"output {clash} exists; use --force to overwrite or another --output")
            self.claimed.add(stem.casefold())
            self.ours |= {stem} if again else set()

    def write(self, stem: str, contents: Mapping[str, bytes]) -> tuple[Path, ...]:
        """Write the files of a claimed stem, one per kind; a failure removes those written, except with `force`."""
        written: list[Path] = []
        try:
            for kind, content in contents.items():
                path = self.path / f"{stem}.{kind}"
                write_whole(path, content, replace=self.force or stem in self.ours)
                written.append(path)
        except OSError as error:
            if not self.force:
                for path in written:
                    path.unlink(missing_ok=True)
            if isinstance(error, FileExistsError):  # it was not there when it was claimed
                raise InputError(
                    f"output {self.path / stem}: another run has just written files of this name"
                ) from None
            raise InputError(f"output {self.path / stem}: cannot be written ({error.strerror or error})") from None
        return tuple(written)

    def _files(self, stem: str) -> tuple[Path, ...]:
        return tuple(self.path / f"{stem}.{kind}" for kind in KINDS)
