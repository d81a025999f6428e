"""Which files the zoo holds: not every combination, but every value of every axis where it may matter.

- every family by both exporters, with attention in one call and spelled out
- every opset of every exporter, on a plain and on a hierarchical family
- fixed batch, free image size and dynamo without its optimiser, on families that differ in what these change
- every post-processing, on seven families, on files of one exporter for some and of the other for the rest
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .exporters import EXPORTERS, Form
from .families import FAMILIES, Family
from .post import POSTS

SLICES = ("ci", "all")


@dataclass(frozen=True, slots=True)
class File:
    """One file of the zoo."""

    family: str
    form: Form
    post: str | None = None

    @property
    def name(self) -> str:
        return "-".join([self.family, self.form.name, *([self.post] if self.post else [])])

    @property
    def base(self) -> File:
        """The file it is made from."""
        return File(self.family, self.form)

    @property
    def kind(self) -> str:
        return POSTS[self.post].kind if self.post else "float32"


FORMS = (
    Form("ts", 17, False), Form("ts", 14, True), Form("dynamo", 18, False), Form("dynamo", 23, True),
)  # fmt: skip
ALL_OPSETS = ("vit", "hf_segformer")
FIXED_BATCH = ("vit", "deit_distilled", "hf_vit", "hf_segformer", "swin", "siglip")
UNOPTIMISED = ("vit", "hf_vit", "hf_segformer", "swin", "torchvision_vit")
PROCESSED = {  # family: the form that is processed further
    "vit": Form("dynamo", 18),
    "deit_distilled": Form("ts", 17),
    "hf_segformer": Form("dynamo", 18),
    "swin": Form("dynamo", 18),
    "siglip": Form("ts", 17),
    "hf_clip": Form("dynamo", 20, True),
    "hf_vit": Form("ts", 17, True),
}


def _able(family: Family, form: Form) -> Form:
    """The form for a family that leaves no choice of how attention is computed."""
    return form if family.fuse else Form(form.exporter, form.opset, None, form.free_batch, form.free_size)


def _forms() -> Iterator[File]:
    for family in FAMILIES.values():
        yield from (File(family.name, _able(family, form)) for form in FORMS)


def _opsets() -> Iterator[File]:
    for name in ALL_OPSETS:
        for exporter, fused in (("ts", False), ("dynamo", False), ("dynamo", True)):
            yield from (File(name, Form(exporter, opset, fused)) for opset in EXPORTERS[exporter].opsets)


def _free() -> Iterator[File]:
    for name in FIXED_BATCH:
        yield from (
            File(name, Form(exporter, opset, free_batch=False)) for exporter, opset in (("ts", 16), ("dynamo", 20))
        )
    for family in FAMILIES.values():
        if family.other:
            yield from (File(family.name, Form(e, opset, free_size=True)) for e, opset in (("ts", 17), ("dynamo", 18)))
    for name in UNOPTIMISED:
        yield from (File(name, _able(FAMILIES[name], Form("raw", opset, True))) for opset in (18, 21))


def _processed() -> Iterator[File]:
    for name, form in PROCESSED.items():
        yield from (File(name, form, post) for post in POSTS)


FILES: dict[str, File] = {
    file.name: file for part in (_forms, _opsets, _free, _processed) for file in part()
}  # fmt: skip

# The slice for continuous integration: each family once, both exporters in turn, and what is most often met.
_TURNS = (Form("ts", 17, False), Form("dynamo", 23, True), Form("dynamo", 18, False), Form("ts", 14, True))
CI_FORMS = tuple(
    File(family.name, _able(family, _TURNS[number % len(_TURNS)])) for number, family in enumerate(FAMILIES.values())
)
CI_OPSETS = tuple(
    File("vit", Form(e, opset, fused))
    for e, opset, fused in (
        ("ts", 13, False),
        ("ts", 18, False),
        ("ts", 20, False),
        ("dynamo", 21, True),
        ("dynamo", 25, True),
    )
)
CI_POSTS = tuple(
    File(family, PROCESSED[family], post)
    for post in POSTS
    for family in ("vit", "hf_segformer")
    if not (post.startswith("fused") and family == "vit")
)
CI: frozenset[str] = frozenset(file.name for part in (CI_FORMS, CI_OPSETS, CI_POSTS) for file in part)


def chosen(slice_name: str, families: tuple[str, ...] = ()) -> list[File]:
    """The files of a slice, of some families or of all."""
    return [
        file
        for file in FILES.values()
        if (slice_name == "all" or file.name in CI) and (not families or file.family in families)
    ]
