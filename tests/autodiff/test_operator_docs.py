"""The page that lists the covered operators is the one the code would print."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")


from gradskip_onnx.autodiff.rules.table import NOTES, VJPS

from .operator_docs import page

pytestmark = pytest.mark.torch

PAGE = Path(__file__).parent.parent.parent / "docs" / "operators.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.operator_docs > docs/operators.md"


def test_notes_belong_to_rules() -> None:
    assert set(NOTES) <= set(VJPS)
