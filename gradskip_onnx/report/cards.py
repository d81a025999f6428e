"""Images as they stand on the page: facts, pictures, and what they are ordered by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from gradskip_onnx.findings.words import value_text

from .content import Content, ImageFacts, facts_of
from .pictures import MEDIUM, SMALL, Picture, pictures
from .worst import gallery

STRIP = 5  # pictures in a row of examples
GALLERY_BYTES = 9 << 20  # of pictures; the gallery ends where they are spent
ORDERS: Mapping[str, str] = MappingProxyType(
    {
        "position": "as in the data",
        "probability:down": "surest first",
        "probability": "least sure first",
        "gap": "weakest check first",
        "inside": "least on the object first",
        "border:down": "most on the border first",
        "concentration:down": "most concentrated first",
    }
)  # key of a card, and whether the largest stand first -> words
SMALL_PRINT = (
    ("on the object", "inside"),
    ("on the border", "border"),
    ("probability without what is marked", "check_erased"),
    ("without as much at random", "check_random"),
)


@dataclass(frozen=True, slots=True)
class Card:
    """An image on the page."""

    facts: ImageFacts
    picture: Picture

    @property
    def keys(self) -> dict[str, float | None]:
        """What the gallery is ordered by."""
        numbers = self.facts.numbers
        erased, random = numbers["check_erased"], numbers["check_random"]
        gap = None if erased is None or random is None else random - erased
        return {**{name: numbers[name] for name in ("probability", "inside", "border", "concentration")}, "gap": gap}

    @property
    def words(self) -> str:
        """The numbers of the image, in small print."""
        parts = ((text, self.facts.numbers[name]) for text, name in SMALL_PRINT)
        return ", ".join(f"{text} {value_text(value, 'share')}" for text, value in parts if value is not None)


def cards(content: Content, positions: Sequence[int], side: int, *, with_image: bool = True) -> list[Card]:
    """Images with their facts and pictures; those without a map are left out."""
    explained = set(content.audit.explained)
    chosen = [position for position in positions if position in explained]
    drawn = pictures(content, chosen, side, with_image=with_image)
    return [Card(facts, picture) for facts, picture in zip(facts_of(content.audit, chosen), drawn, strict=True)]


def strip(content: Content, positions: Sequence[int]) -> list[Card]:
    """A few small examples."""
    return cards(content, positions[:STRIP], SMALL, with_image=False)


def gallery_cards(content: Content) -> list[Card]:
    """The cards of the gallery, as many as the bytes for pictures allow."""
    spent, shown = 0, []
    for card in cards(content, gallery(content), MEDIUM):
        spent += card.picture.bytes
        if spent > GALLERY_BYTES:
            break
        shown.append(card)
    return shown


def orders(shown: Sequence[Card]) -> list[tuple[str, str]]:
    """The orders for which an image has a value."""
    known = {"position"} | {key for card in shown for key, value in card.keys.items() if value is not None}
    return [(order, words) for order, words in ORDERS.items() if order.partition(":")[0] in known]
