"""Studies: quarters of heads by hand, what gradskip makes of them, and the command."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from gradskip_onnx.errors import InputError
from gradskip_onnx.evaluation import choose_method
from gradskip_onnx.evaluation.studies import STUDIES, _quarter_note
from gradskip_onnx.methods.gradskip.heads import Heads
from gradskip_onnx.methods.gradskip.quartiles import entropy, membership, restrict
from tests.support.command_line import run
from tests.support.evaluation_data import FLAGS, explainer, model_bytes, pictures


def test_quarters_of_twelve_heads_are_three_each():
    focus = np.array([5, 3, 9, 1, 8, 2, 7, 0, 6, 4, 11, 10], float)
    chosen = [set(np.flatnonzero(membership(focus, quarter))) for quarter in range(4)]

    assert chosen == [{10, 11, 2}, {4, 6, 8}, {0, 9, 1}, {5, 3, 7}]
    assert all(set(membership(focus, quarter)) == {0.0, 1.0} for quarter in range(4))


def test_a_cut_through_a_head_gives_it_to_both_sides():
    """Three heads: quarters are three quarters of a head wide."""
    focus = np.array([0.2, 0.9, 0.5])

    np.testing.assert_allclose(membership(focus, 0), [0, 0.75, 0])
    np.testing.assert_allclose(membership(focus, 1), [0, 0.25, 0.5])
    np.testing.assert_allclose(membership(focus, 3), [0.75, 0, 0])
    np.testing.assert_allclose(sum(membership(focus, quarter) for quarter in range(4)), 1)


def test_weights_of_a_quarter():
    heads = Heads(np.array([0.1, 0.2, 0.3, 0.4]), np.zeros(4), np.array([0.5, 0.9, 0.7, 0.1]))
    events: Counter[str] = Counter()
    found = restrict(heads, [], "25-50", "gini", events)

    np.testing.assert_array_equal(found.weights, [0, 0, 1, 0])
    assert found.focus == 0.7
    assert restrict(heads, [], "all", "gini", events) is heads
    silent = Heads(np.array([1.0, 0, 0, 0]), np.zeros(4), heads.gini)
    np.testing.assert_array_equal(restrict(silent, [], "0-25", "gini", events).weights, [0, 1, 0, 0])
    assert events == {"uniform_heads": 1}


def test_entropy_of_heads_in_windows():
    """A head is all of its windows together."""
    whole = np.random.default_rng(0).random((2, 4, 6)).astype(np.float32)
    whole[1, 0] = 0
    expected = [stats.entropy(head.reshape(-1).astype(np.float64)) for head in whole]

    np.testing.assert_allclose(entropy([whole]), expected, rtol=1e-7)
    np.testing.assert_allclose(entropy([whole[:, :1], whole[:, 1:]]), expected, rtol=1e-7)
    assert entropy([np.zeros((1, 2, 2), np.float32)])[0] == 0


@pytest.mark.parametrize("by", ["gini", "entropy"])
def test_gradskip_uses_one_quarter(tmp_path, by):
    """Four heads: each quarter is one of them, all of the weight goes there, and the four are all heads."""
    model = explainer()
    image = pictures(tmp_path / "data", 1) / "00.png"
    used, focus = [], []
    for quarter in ("0-25", "25-50", "50-75", "75-100"):
        found = model.explain(image, method="gradskip", heads=quarter, focus=by).relevance
        weights = np.array([block.head_weights for block in found.blocks])
        np.testing.assert_array_equal(np.sort(weights, axis=1)[:, -1], 1.0)
        used.append(weights.argmax(axis=1))
        focus.append(found.checks["focus"])
        if by == "gini":
            best = [np.sort(block.gini)[::-1][len(used) - 1] for block in found.blocks]
            assert found.checks["focus"] == pytest.approx(np.mean(best))
    assert (np.sort(np.stack(used), axis=0) == np.arange(4)[:, None]).all()
    assert focus == sorted(focus, reverse=True)
    assert "focus" not in model.explain(image).relevance.checks


def test_increments_and_tests_by_hand():
    values = np.array([[0.5, 0.6, 0.9], [0.4, 0.6, 0.5], [0.3, 0.2, 0.4], [0.1, 0.3, 0.2]])
    whole = np.array([[0.4, 0.4, 0.4]])
    focus = np.array([[0.9, 0.8, 0.9], [0.7, 0.6, 0.7], [0.5, 0.4, 0.5], [0.3, 0.2, 0.1]])
    (table, tests), document = _quarter_note("m", "gini", values - whole, values, focus)

    assert table.rows[0] == ("0-25 %", "0.6667", "+0.2667", f"{np.std([0.1, 0.2, 0.5], ddof=1):.4f}")
    assert document["quarters"]["75-100"]["increment"] == pytest.approx(-0.2)
    found = {each["test"].split(",")[0]: each for each in document["tests"]}
    ranks = [stats.rankdata(x.reshape(-1)) for x in (focus, values)]
    assert found["Spearman"]["statistic"] == pytest.approx(np.corrcoef(*ranks)[0, 1])
    means = values.mean(axis=1)
    between = 3 * ((means - values.mean()) ** 2).sum() / 3
    within = ((values - means[:, None]) ** 2).sum() / (12 - 4)
    assert found["ANOVA"]["statistic"] == pytest.approx(between / within)
    assert found["Wilcoxon"]["p"] == pytest.approx(0.25)  # three pairs of one sign: 2 / 2^3
    assert len(tests.rows) == 4


def test_methods_of_a_study():
    base = choose_method("gradskip", alpha=0.3)
    found = [each.label for each in STUDIES["gamma"].methods(base, ("0.1", "0.25", "0.10"))]

    assert found == ["gradskip[alpha=0.3,gamma=0.1]", "gradskip[alpha=0.3]"]
    assert len(STUDIES["heads"].methods(base, ("gini", "entropy"))) == 9
    with pytest.raises(InputError, match="has no option 'gamma' to study"):
        STUDIES["gamma"].methods(choose_method("rollout"), ("0.1",))
    with pytest.raises(InputError, match="'much': a number"):
        STUDIES["alpha"].methods(base, ("much",))
    with pytest.raises(InputError, match="ranked by gini, entropy"):
        STUDIES["heads"].methods(base, ("size",))


@pytest.mark.parametrize(
    ("name", "values", "texts"),
    [
        ("alpha", "0,0.5,1", ("gradskip[alpha=0.0]", "Does alpha matter?", "minus gradskip")),
        ("heads", "gini", ("gradskip[heads=75-100]", "quarters by gini", "Wilcoxon, first and last quarter")),
    ],
)
def test_the_command(tmp_path, name, values, texts):
    (tmp_path / "model.onnx").write_bytes(model_bytes())
    data = pictures(tmp_path / "data", 3)
    command = ["study", name, tmp_path / "model.onnx", data, "--values", values, "-o", tmp_path / "out", *FLAGS]
    command += ["--metrics", "insertion-deletion[steps=3]", "--threads", "1", "--resamples", "100", "--pictures", "1"]
    found = run(*command)

    assert found.exit_code == 0, found.output
    page = (tmp_path / "out" / "report.html").read_text()
    for text in texts:
        assert text in found.stdout
    assert texts[1] in page
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert document["study"]["option"] == name
    assert document["study"]["results"][0]["metric"] == "insertion-deletion[steps=3]"
