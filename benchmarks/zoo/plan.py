"""Which files the zoo holds: not every combination, but every value of every axis where it may matter.

- every family by both exporters, with attention in one call and spelled out
- every opset of every exporter, on a plain and on a hierarchical family; old opsets where torch can write them
- fixed batch, free image size and dynamo without its optimiser, on families that differ in what these change
- every post-processing, on seven families, on files of one exporter for some and of the other for the rest
- fixed batches at every level of ONNX Runtime's optimiser
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
FLATTENING = 13  # the first opset whose Softmax does not flatten; files below it are converted when they are read
# The first opset in which torch writes a family rightly: Expand came with 8, Erf and ConstantOfShape with 9, Resize of
# the right corners with 11.
OLDEST = {"vit_quick_gelu": 7, "hf_siglip": 7, "vit": 9, "hf_segformer": 11}
FIXED_BATCH = ("vit", "deit_distilled", "hf_vit", "hf_segformer", "swin", "siglip")
FIXED_FORMS = (Form("ts", 16, free_batch=False), Form("dynamo", 20, free_batch=False))
LEVELS = ("ort_basic", "ort_extended", "ort_all")
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
            opsets = (opset for opset in EXPORTERS[exporter].opsets if opset >= FLATTENING)
            yield from (File(name, Form(exporter, opset, fused)) for opset in opsets)
    for name, oldest in OLDEST.items():
        yield from (File(name, Form("ts", opset)) for opset in range(oldest, FLATTENING))


def _fixed() -> Iterator[File]:
    for name in FIXED_BATCH:
        for form in FIXED_FORMS:
            yield from (File(name, form, post) for post in (None, *LEVELS))


def _free() -> Iterator[File]:
    for family in FAMILIES.values():
        if family.other:
            yield from (File(family.name, Form(e, opset, free_size=True)) for e, opset in (("ts", 17), ("dynamo", 18)))
    for name in UNOPTIMISED:
        yield from (File(name, _able(FAMILIES[name], Form("raw", opset, True))) for opset in (18, 21))


def _processed() -> Iterator[File]:
    for name, form in PROCESSED.items():
        yield from (File(name, form, post) for post in POSTS)


FILES: dict[str, File] = {
    file.name: file for part in (_forms, _opsets, _fixed, _free, _processed) for file in part()
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
CI_OLD = tuple(
    File(family, Form("ts", opset))
    for family, opset in (
        ("vit_quick_gelu", 7), ("hf_siglip", 8), ("vit", 9), ("vit", 10), ("hf_segformer", 11), ("vit", 12),
    )
)  # fmt: skip
CI_FIXED = tuple(
    File(family, form, level)
    for level in LEVELS
    for family, form in (("vit", FIXED_FORMS[0]), ("deit_distilled", FIXED_FORMS[1]), ("hf_segformer", FIXED_FORMS[0]))
)
CI: frozenset[str] = frozenset(file.name for part in (CI_FORMS, CI_OPSETS, CI_POSTS, CI_OLD, CI_FIXED) for file in part)


def chosen(slice_name: str, families: tuple[str, ...] = ()) -> list[File]:
    """The files of a slice, of some families or of all."""
    return [
        file
        for file in FILES.values()
        if (slice_name == "all" or file.name in CI) and (not families or file.family in families)
    ]
