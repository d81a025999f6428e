"""Where an audit lies: a folder on disk, or an address of fsspec such as s3://bucket/audit or memory://audit.

Both write files whole or not at all. Only a folder on disk can be locked; of an address nobody knows who else writes
to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

from gradskip_onnx.addresses import is_remote, on_disk, open_address
from gradskip_onnx.errors import InputError
from gradskip_onnx.limits import AUDIT_FILE_BYTES
from gradskip_onnx.output.atomic import make_folder, remove_leftovers, temporary_name, write_whole, writing
from gradskip_onnx.output.locks import locked
from gradskip_onnx.untrusted_files import open_regular


class Place(Protocol):
    """A folder of files with relative names such as parts/part-00000.parquet."""

    @property
    def name(self) -> str:
        """The folder as the user knows it."""

    def make(self, folder: str = "") -> None:
        """Create the folder, or one below it; remove what writers that were killed left in it."""

    def files(self, folder: str = "") -> list[str]:
        """The names of the files directly in the folder, or in one below it, sorted; hidden ones are left out."""

    def exists(self, file: str) -> bool: ...

    def open(self, file: str) -> BinaryIO:
        """A file to read from; raises InputError if there is none, or if it is too large."""

    def write(self, file: str, content: bytes) -> None:
        """Write a file whole or not at all; one of that name is replaced."""

    def remove(self, file: str) -> None:
        """Remove a file, if it is there."""

    def held(self) -> Any:
        """A context in which no other run writes here, as far as that can be known; raises InputError if one does."""


def open_place(where: str | os.PathLike[str] | Place) -> Place:
    """The place at a path or an address."""
    if isinstance(where, Disk | Remote):
        return where
    if not isinstance(where, str | os.PathLike):
        raise InputError(f"folder: got {type(where).__name__}; give a path or an address such as s3://bucket/audit")
    text = os.fspath(where)
    if not text:
        raise InputError("folder '': name a folder, . for the working folder")
    return Remote(*open_address(text), text.rstrip("/")) if is_remote(text) else Disk(Path(on_disk(text)))


@dataclass(frozen=True, slots=True)
class Disk:
    """A folder on disk."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def make(self, folder: str = "") -> None:
        with writing(self.path / folder):
            make_folder(self.path / folder)
        remove_leftovers(self.path / folder)

    def files(self, folder: str = "") -> list[str]:
        with suppress(OSError):
            return sorted(entry.name for entry in (self.path / folder).iterdir() if entry.name[0] != ".")
        return []

    def exists(self, file: str) -> bool:
        return (self.path / file).is_file()

    def open(self, file: str) -> BinaryIO:
        try:
            stream = open_regular(self.path / file)
        except OSError as error:
            raise InputError(f"{self.path / file}: cannot be read ({error.strerror or error})") from None
        _check_size(f"{self.path / file}", os.fstat(stream.fileno()).st_size)
        return stream

    def write(self, file: str, content: bytes) -> None:
        with writing(self.path / file):
            write_whole(self.path / file, content)

    def remove(self, file: str) -> None:
        with writing(self.path / file):
            (self.path / file).unlink(missing_ok=True)

    def held(self) -> Any:
        return locked(self.path)


@dataclass(frozen=True, slots=True, eq=False)
class Remote:
    """A folder at an address of fsspec; files are written under another name and renamed."""

    system: Any
    path: str
    address: str

    @property
    def name(self) -> str:
        return self.address

    def make(self, folder: str = "") -> None:
        with self._naming(folder):
            self.system.makedirs(self._at(folder), exist_ok=True)

    def files(self, folder: str = "") -> list[str]:
        self.system.invalidate_cache()  # other machines write here
        with suppress(OSError):
            found = (PurePosixPath(str(path)).name for path in self.system.ls(self._at(folder), detail=False))
            return sorted(name for name in found if name and name[0] != ".")
        return []

    def exists(self, file: str) -> bool:
        with self._naming(file):
            return bool(self.system.isfile(self._at(file)))

    def open(self, file: str) -> BinaryIO:
        with self._naming(file, "read"):
            _check_size(f"{self.address}/{file}", int(self.system.size(self._at(file)) or 0))
            stream: BinaryIO = self.system.open(self._at(file), "rb")
            return stream

    def write(self, file: str, content: bytes) -> None:
        target = self._at(file)
        temporary = str(PurePosixPath(target).with_name(temporary_name()))
        with self._naming(file):
            try:
                self.system.pipe_file(temporary, content)
                self.system.mv(temporary, target)
            except BaseException:
                with suppress(OSError):
                    self.system.rm_file(temporary)
                raise

    def remove(self, file: str) -> None:
        with self._naming(file), suppress(FileNotFoundError):
            self.system.rm_file(self._at(file))

    @contextmanager
    def held(self) -> Iterator[None]:
        yield

    def _at(self, file: str) -> str:
        return f"{self.path}/{file}".rstrip("/")

    @contextmanager
    def _naming(self, file: str, verb: str = "written") -> Iterator[None]:
        """Turn a failure of the file system into an InputError that names the file."""
        try:
            yield
        except OSError as error:
            raise InputError(f"{self.address}/{file}: cannot be {verb} ({error.strerror or error})") from None


def _check_size(name: str, size: int) -> None:
    if size > AUDIT_FILE_BYTES.amount:
        limit = AUDIT_FILE_BYTES
        raise InputError(f"{name}: {size} bytes, limit {limit.amount}; {limit.variable} raises it")
