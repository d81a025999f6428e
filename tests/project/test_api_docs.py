"""The page of public names is the one the code would print."""

from __future__ import annotations

from pathlib import Path

import gradskip_onnx

from .api_docs import page

PAGE = Path(__file__).parent.parent.parent / "docs" / "api.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.project.api_docs > docs/api.md"


def test_every_public_name_is_described():
    assert [name for name in gradskip_onnx.__all__ if f"`gradskip_onnx.{name}`" not in page()] == []
