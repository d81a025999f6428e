"""The image of an explanation as it was given, kept small: the bytes of its file, or its pixels."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

from .read import Picture, decode


@dataclass(frozen=True, slots=True, eq=False)
class Original:
    """An image that can be opened again, also after its file is gone.

    A photograph of 12 megapixels takes 36 MB as pixels and about 4 MB as the bytes of its file, which are kept instead.
    """

    name: str  # the path of its file, or what messages call it
    sha256: str | None  # of the file; None for an image that came as pixels
    content: bytes | Image.Image  # as in the file, or upright RGB

    @classmethod
    def of(cls, picture: Picture) -> Original:
        return cls(picture.name, picture.sha256, picture.image if picture.encoded is None else picture.encoded)

    def open(self) -> Image.Image:
        """The image, upright RGB."""
        return decode(self.content, self.name) if isinstance(self.content, bytes) else self.content
