"""An outside check of the rules: the operator test models that ship inside the `onnx` package."""

from __future__ import annotations

from collections import Counter

import pytest

from .onnx_operator_models import Verdict, judge, models

loader = pytest.importorskip("onnx.backend.test.loader")
if not hasattr(loader, "load_node_model_tests"):
    pytest.skip("this onnx package keeps its operator models elsewhere; 1.23 is known to work", allow_module_level=True)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the data has infinities on purpose
]

# Models whose gradient may differ from finite differences of the reference implementation, and why.
KNOWN = {
    "test_resize_downsample_scales_linear_align_corners": "ONNX Runtime rounds the new size before it scales",
    "test_resize_downsample_scales_cubic_align_corners": "ONNX Runtime rounds the new size before it scales",
    "test_l1normalization_axis_last": "the reference adds signed values, so its norm has no corner at zero",
}
AT_LEAST = 650  # models compared and found right with onnx 1.23; fewer means that rules were lost
REASONS = {  # every other outcome that is accepted
    *("no float32 input", "no float32 output", "too large", "not smooth at the data"),
    *("refused [no-gradient-rule]", "refused [no-path]", "refused [dynamic-shape]"),
    *("the reference cannot run it", "the reference cannot run it in float64"),
    "the output does not depend on a float32 input",
}


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    return [judge(*model) for model in models()]


def test_no_model_has_another_gradient(verdicts: list[Verdict]) -> None:
    wrong = [(v.name, v.detail) for v in verdicts if v.outcome == "differs" and v.name not in KNOWN]
    assert wrong == []


def test_the_known_differences_are_still_there(verdicts: list[Verdict]) -> None:
    assert {v.name for v in verdicts if v.outcome == "differs"} == set(KNOWN)


def test_most_models_are_covered_and_the_rest_has_a_reason(verdicts: list[Verdict]) -> None:
    outcomes = Counter(v.outcome for v in verdicts)
    assert outcomes["agrees"] >= AT_LEAST, outcomes
    assert set(outcomes) - {"agrees", "differs"} <= REASONS


def test_a_wrong_gradient_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradskip_onnx.autodiff.rules.table import VJPS

    monkeypatch.setitem(VJPS, "Tanh", lambda n, g: (g * (1 - n.y),))
    name, model, feeds = next(entry for entry in models() if entry[0] == "test_tanh")
    assert judge(name, model, feeds).outcome == "differs"
