"""Puts a page together from finished pieces: each text is measured before it gets its place, so that none is cut."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

Ink = tuple[int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

INK, FAINT, PAPER = (24, 24, 27), (96, 96, 104), (255, 255, 255)
LEADING = 1.3  # distance of lines, in sizes of the font
LONGEST = 1000  # characters of a text that are looked at


@lru_cache(256)  # the words of legends return; a block is never drawn on again
def text_block(text: str, width: int, size: float, ink: Ink = INK, *, lines: int | None = None) -> Image.Image:
    """The text as wide as it needs, at most `width` pixels, in as many lines as it takes or at most `lines`."""
    font = _font(size)
    wrapped = wrap(text, font, width)
    if lines is not None and len(wrapped) > lines:
        rest = " ".join(wrapped[lines - 1 :])
        wrapped = [*wrapped[: lines - 1], elide(rest + "…", font, width)]
    taken = max(1, min(width, round(max((font.getlength(line) for line in wrapped), default=0)) + 1))
    block = Image.new("RGB", (taken, max(1, round(LEADING * size * len(wrapped)))), PAPER)
    draw = ImageDraw.Draw(block)
    for number, line in enumerate(wrapped):
        draw.text((0, round(number * LEADING * size)), line, font=font, fill=ink)
    return block


def stack(blocks: Sequence[Image.Image], gap: int) -> Image.Image:
    """Blocks below each other, flush left."""
    height = sum(block.height for block in blocks) + gap * (len(blocks) - 1)
    sheet = Image.new("RGB", (max(block.width for block in blocks), height), PAPER)
    top = 0
    for block in blocks:
        sheet.paste(block, (0, top))
        top += block.height + gap
    return sheet


def beside(blocks: Sequence[Image.Image], gap: int, *, centred: bool = False) -> Image.Image:
    """Blocks beside each other, flush at the top or centred."""
    width = sum(block.width for block in blocks) + gap * (len(blocks) - 1)
    sheet = Image.new("RGB", (width, max(block.height for block in blocks)), PAPER)
    left = 0
    for block in blocks:
        sheet.paste(block, (left, (sheet.height - block.height) // 2 if centred else 0))
        left += block.width + gap
    return sheet


def flow(blocks: Sequence[Image.Image], width: int, gap: int) -> Image.Image:
    """Blocks beside each other, in a new row where the next one does not fit into `width`."""
    rows: list[list[Image.Image]] = [[]]
    for block in blocks:
        taken = sum(other.width + gap for other in rows[-1])
        if rows[-1] and taken + block.width > width:
            rows.append([])
        rows[-1].append(block)
    return stack([beside(row, gap, centred=True) for row in rows], max(1, gap // 3))


def widened(block: Image.Image, width: int) -> Image.Image:
    """The block with empty space at its right, up to `width` pixels."""
    sheet = Image.new("RGB", (max(width, block.width), block.height), PAPER)
    sheet.paste(block, (0, 0))
    return sheet


def with_margin(block: Image.Image, margin: int) -> Image.Image:
    """The block with an empty border."""
    sheet = Image.new("RGB", (block.width + 2 * margin, block.height + 2 * margin), PAPER)
    sheet.paste(block, (margin, margin))
    return sheet


def wrap(text: str, font: Font, width: float) -> list[str]:
    """Lines of at most `width` pixels, broken at spaces or, in a word that is too long, anywhere."""
    lines: list[str] = []
    words = printable(text).split()
    if words and font.getlength(whole := " ".join(words)) <= width:
        return [whole]
    for word in words:
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(joined) <= width:
            lines[-1] = joined
            continue
        while font.getlength(word) > width and len(word) > 1:
            fits = _fitting(word, font, width)
            lines.append(word[:fits])
            word = word[fits:]
        lines.append(word)
    return lines


def elide(text: str, font: Font, width: float) -> str:
    """The text on one line, cut with an ellipsis to fit `width` pixels."""
    flat = printable(text)
    if font.getlength(flat) <= width:
        return flat
    return flat[: _fitting(flat, font, width - font.getlength("…"))].rstrip() + "…"


def printable(text: str) -> str:
    """The beginning of a text, with spaces for control characters."""
    return "".join(character if character.isprintable() else " " for character in text[:LONGEST])


@lru_cache(64)  # each is read and set up anew otherwise
def _font(size: float) -> Font:
    return ImageFont.load_default(size)


def _fitting(text: str, font: Font, width: float) -> int:
    """How many characters fit into `width` pixels, at least one."""
    fits = 1
    while fits < len(text) and font.getlength(text[: fits + 1]) <= width:
        fits += 1
    return fits
