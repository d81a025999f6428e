"""Images and tables at an address of fsspec, such as s3://bucket/photos, read when asked for, within usual limits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from gradskip_onnx.addresses import open_address
from gradskip_onnx.errors import InputError
from gradskip_onnx.images.read import SUFFIXES, Picture, decode_picture
from gradskip_onnx.limits import IMAGE_BYTES, TEXT_BYTES, Limit

from .entry import Entry


@dataclass(frozen=True, slots=True, eq=False)
class RemoteFolder:
    """A folder of a file system that is not on disk; names are relative to it."""

    system: Any
    path: str
    address: str

    @classmethod
    def at(cls, address: str) -> RemoteFolder:
        return cls(*open_address(address.rstrip("/")), address.rstrip("/"))

    def names(self) -> list[str]:
        """Every file in the folder and below it, in order; what begins with a dot is left out."""
        with self._naming(""):
            self.system.invalidate_cache()
            found = [str(path).removeprefix(self.path).lstrip("/") for path in self.system.find(self.path)]
        return sorted(name for name in found if not any(part.startswith(".") for part in name.split("/")))

    def images(self) -> list[str]:
        """The images among them."""
        return [name for name in self.names() if name.lower().endswith(SUFFIXES)]

    def read(self, name: str, limit: Limit) -> bytes:
        """The content of a file; raises InputError if it cannot be read, or is larger than the limit."""
        with self._naming(name):
            size = int(self.system.size(f"{self.path}/{name}") or 0)
            if size > limit.amount:
                raise InputError(
                    f"{self.address}/{name}: {size} bytes, limit {limit.amount}; {limit.variable} raises it"
                )
            content: bytes = self.system.cat_file(f"{self.path}/{name}")
        return content

    def text(self, name: str) -> str:
        """The content of a small UTF-8 file."""
        try:
            return self.read(name, TEXT_BYTES).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            raise InputError(f"{self.address}/{name}: not UTF-8 text") from None

    def picture(self, name: str) -> Picture:
        return decode_picture(self.read(name, IMAGE_BYTES), f"{self.address}/{name}")

    def digest(self, *names: str) -> str:
        """SHA-256 over the hashes of files, in order."""
        total = hashlib.sha256()
        for name in names:
            total.update(bytes.fromhex(self.sha256(name)))
        return total.hexdigest()

    def sha256(self, name: str) -> str:
        """SHA-256 of a file."""
        return hashlib.sha256(self.read(name, IMAGE_BYTES)).hexdigest()

    def entry(self, name: str, label: int | str | None, *truth: str) -> Entry:
        """An entry whose image is a file of the folder; `truth` are the files with its ground truth."""
        picture, digest = partial(self.picture, name), partial(self.digest, name, *truth)
        sha256 = partial(self.sha256, name)
        return Entry(name, lambda: picture().image, digest, label, picture=picture, sha256=sha256)

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Turn a failure of the file system into an InputError that names the file."""
        try:
            yield
        except OSError as error:
            where = f"{self.address}/{name}".rstrip("/")
            raise InputError(f"{where}: cannot be read ({error.strerror or type(error).__name__})") from None
