"""Arrays of a pass by name, of which large ones are made when they are looked up, and are not kept."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping

from gradskip_onnx.runtime.session import Session
from gradskip_onnx.types import Array, Maker, read_only


class MadeArrays(Mapping[str, Array]):
    """`held` arrays, and those that functions of `made` make; read-only."""

    def __init__(self, held: Mapping[str, Array], made: Mapping[str, Callable[[], Array]]) -> None:
        self._held = {name: read_only(array) for name, array in held.items()}
        self._made = dict(made)

    def __getitem__(self, name: str) -> Array:
        return read_only(self._made[name]()) if name in self._made else self._held[name]

    def __contains__(self, name: object) -> bool:
        return name in self._held or name in self._made  # the inherited one would make the array

    def __iter__(self) -> Iterator[str]:
        yield from self._held
        yield from self._made

    def __len__(self) -> int:
        return len(self._held) + len(self._made)


def make(maker: Maker, output: str, outputs: Mapping[str, Array], session: Session) -> Array:
    """The large tensor `output`, for all images, from the `outputs` of a run; its session is closed afterwards."""
    assert session.beside is not None  # it runs a plan, and so was opened from bytes
    small = session.beside(b64decode(maker.model))
    return small.run([output], {name: outputs[name] for name in maker.inputs})[output]
