"""Compares methods on a dataset: resumable runs, a table with intervals, an HTML page."""

from __future__ import annotations

from gradskip_onnx.methods import MethodChoice, choose_method

from .choices import EVERY_METRIC, choose_metric, every_metric, find_metric
from .evaluate import Findings, Report, evaluate, set_up, write
from .evaluation import Evaluation
from .page import Note
from .summary import Summary

__all__ = [
    "EVERY_METRIC", "Evaluation", "Findings", "MethodChoice", "Note", "Report", "Summary", "choose_method",
    "choose_metric", "evaluate", "every_metric", "find_metric", "set_up", "write",
]  # fmt: skip
