"""Intervals and tests: cases small enough to write out, the rest against plain formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gradskip_onnx.errors import GradskipError, InputError
from gradskip_onnx.imports import optional as extras
from gradskip_onnx.metrics import METRICS, Measured, Metric
from gradskip_onnx.metrics.statistics import (
    Interval,
    anova,
    entropy,
    exchange_test,
    friedman,
    gini,
    holm,
    interval,
    paired,
    spearman,
    wilcoxon,
)

pytest.importorskip("scipy")

ROW = METRICS["insertion"]
ROUNDING = 1e-12


def measured(values: Sequence[float | None]) -> list[Measured]:
    return [Measured(excluded="left out") if v is None else Measured({"insertion": v}) for v in values]


def sure(row: Metric, many: Sequence[Measured], **options: Any) -> Interval:
    """The interval, which must be there."""
    found = interval(row, many, **options)
    assert found is not None
    return found


def test_interval_of_equal_values_is_a_point():
    found = sure(ROW, measured([0.25] * 5))

    assert (found.value, found.low, found.high, found.count) == (0.25, 0.25, 0.25, 5)


def test_interval_of_a_coin():
    """50 zeros and 50 ones: the mean is 0.5, its standard error 0.05, so 95 % lie within 0.098."""
    found = sure(ROW, measured([0.0, 1.0] * 50))

    assert found.value == 0.5
    assert found.low == pytest.approx(0.402, abs=0.012)  # steps of 0.01, and 2000 draws
    assert found.high == pytest.approx(0.598, abs=0.012)
    assert interval(ROW, measured([0.0, 1.0] * 50)) == found
    narrow = sure(ROW, measured([0.0, 1.0] * 50), level=0.5)
    assert found.low < narrow.low < narrow.high < found.high


def test_excluded_images_do_not_enter():
    found = sure(ROW, measured([0.2, None, 0.4, None]))

    assert found.count == 2
    assert found.value == pytest.approx(0.3)
    assert interval(ROW, measured([None])) is None


def test_interval_of_an_accumulated_ratio():
    """Sums over sums in every draw: two images of 10 and 90 pixels can only give these three accuracies."""
    row = METRICS["pixel-accuracy"]
    many = [Measured({"correct": 10.0, "labelled": 10.0}), Measured({"correct": 45.0, "labelled": 90.0})]
    found = sure(row, many)

    assert found.value == pytest.approx(0.55)
    assert [found.low, found.high] == pytest.approx([0.5, 1.0])


def test_paired_difference_is_sharper_than_either():
    """Images differ widely, the methods by exactly 0.1 on each."""
    rng = np.random.default_rng(0)
    one = rng.random(40)
    found = paired(ROW, measured([*(one + 0.1), None]), measured([*one, 0.5]))

    assert found is not None
    assert found.count == 40
    assert [found.low, found.value, found.high] == pytest.approx([0.1] * 3)
    with pytest.raises(InputError, match="same images"):
        paired(ROW, measured([1.0]), measured([]))
    assert paired(ROW, measured([None]), measured([1.0])) is None


def test_spearman_by_hand():
    """Ranks 1 2 3 4 5 and 2 1 4 3 5: 1 - 6 (1 + 1 + 1 + 1) / (5 x 24) = 0.8; t = 0.8 sqrt(3 / 0.36) = 2.309."""
    found = spearman([1, 2, 3, 4, 5], [20, 10, 40, 30, 50])

    assert found.statistic == pytest.approx(0.8)
    assert found.p == pytest.approx(0.10408, abs=1e-5)  # two-sided t with 3 degrees of freedom


def test_spearman_ties_take_average_ranks():
    """Ranks 1.5 1.5 3 4 against 1 2 3 4: Pearson of them is 4.5 / sqrt(4.5 x 5)."""
    assert spearman([1, 1, 2, 3], [1, 2, 3, 4]).statistic == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert spearman([2, 2, 2], [1, 2, 3]).statistic == 0
    assert spearman([2, 2, 2], [1, 2, 3]).p == 1


def test_anova_by_hand():
    """Groups 1 2 3, 2 3 4 and 6 7 8: between 3 x (1.7778 + 0.4444 + ...) / 2 = 21, inside 6 / 6 = 1."""
    groups = [[1, 2, 3], [2, 3, 4], [6, 7, 8]]
    means, grand = [2, 3, 7], 4
    between = 3 * sum((mean - grand) ** 2 for mean in means) / 2

    assert between == 21
    assert anova(groups).statistic == pytest.approx(21 / 1)
    assert anova(groups).p < 0.01
    assert anova([[1, 2, 3], [1, 2, 3]]).p == pytest.approx(1)
    with pytest.raises(InputError, match="constant"):
        anova([[1, 1], [2, 2]])


def test_friedman_by_hand():
    """4 images rank three groups alike: 12 / (4 x 3 x 4) (4² + 8² + 12²) - 3 x 4 x 4 = 8, p = exp(-4)."""
    base = np.array([0.1, 0.5, 0.2, 0.9])
    found = friedman([base, base + 1, base + 2])

    assert found.statistic == pytest.approx(8)
    assert found.p == pytest.approx(math.exp(-4))
    assert friedman([base, base, base]).p == 1
    with pytest.raises(InputError, match="three or more groups"):
        friedman([base, base])


def test_wilcoxon_by_hand():
    """Six differences, all positive: W = 0, and 2 of the 64 signs are as extreme; a pair without difference drops."""
    one = np.array([1.0, 2, 3, 4, 5, 6])
    found = wilcoxon(one + np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), one)

    assert found.statistic == 0
    assert found.p == pytest.approx(2 / 64)
    assert wilcoxon(one, one).p == 1


def test_wilcoxon_of_many_uses_the_normal_curve():
    """60 pairs, differences 1..60 with every third one negative: z = (W - n(n+1)/4) / sqrt(n(n+1)(2n+1)/24)."""
    difference = np.arange(1, 61) * np.where(np.arange(60) % 3 == 2, -1.0, 1.0)
    negative = -difference[difference < 0].sum()
    z = (negative - 60 * 61 / 4) / math.sqrt(60 * 61 * 121 / 24)
    found = wilcoxon(difference, np.zeros(60))

    assert found.statistic == negative
    assert found.p == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), rel=1e-6)


@pytest.mark.parametrize("test", [spearman, wilcoxon])
def test_unusable_columns(test):
    with pytest.raises(InputError, match="three or more pairs"):
        test([1, 2], [1, 2])
    with pytest.raises(InputError, match="three or more pairs"):
        test([1, 2, 3], [1, 2, 3, 4])
    with pytest.raises(InputError, match="NaN"):
        test([1, 2, math.nan], [1, 2, 3])


def test_sparsity_by_hand():
    """All in one of four entries: Gini 3/4, entropy 0; all equal: Gini 0, entropy ln 4."""
    heads = np.array([[[1.0, 0], [0, 0]], [[0.5, 0.5], [0.5, 0.5]], [[0, 0], [0, 0]]])

    np.testing.assert_allclose(gini(heads), [0.75, 0, 0], atol=ROUNDING)
    np.testing.assert_allclose(entropy(heads), [0, math.log(4), 0], atol=ROUNDING)
    np.testing.assert_allclose(entropy(3 * heads), entropy(heads), atol=ROUNDING)


def test_missing_package_names_the_extra():
    with pytest.raises(GradskipError, match=r"pip install 'gradskip-onnx\[evaluate\]'"):
        extras.import_optional("no_such_package.stats")


def test_what_a_package_itself_lacks_is_named(tmp_path, monkeypatch):
    """An installed package that imports more than it asks for is not said to be missing."""
    (tmp_path / "half_a_package.py").write_text("import no_such_dependency.part")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(GradskipError, match=r"^half_a_package needs no_such_dependency, which is not installed; run"):
        extras.import_optional("half_a_package", "sign")


def test_holm_by_hand():
    """Sorted: 0.005 x 4 = 0.02, 0.01 x 3 = 0.03, 0.03 x 2 = 0.06, 0.04 x 1 is below the one before, so 0.06."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([0.02, 0.02]) == [0.04, 0.04]
    assert holm([0.3]) == [0.3]
    assert holm([]) == []


def test_holm_lies_between_no_correction_and_bonferroni():
    ps = np.random.default_rng(0).uniform(size=30) ** 3
    found = np.array(holm(list(ps)))

    assert (found >= ps).all()
    assert (found <= np.minimum(1, 30 * ps) + ROUNDING).all()
    assert (np.diff(found[np.argsort(ps)]) >= 0).all()
    assert found[ps.argmin()] == pytest.approx(min(1, 30 * ps.min()))


def test_exchange_counts_the_signs():
    """Four differences of one sign: of the 16 ways to exchange, two have a sum as large, so p is near 1/8."""
    ones, zeros = measured([1.0, 2.0, 3.0, 4.0]), measured([0.0] * 4)

    p = exchange_test(ROW, ones, zeros)
    assert p == pytest.approx(1 / 8, abs=0.01)  # 9999 draws: standard error 0.003
    assert exchange_test(ROW, zeros, ones) == p
    assert exchange_test(ROW, ones, ones) == 1
    assert exchange_test(ROW, measured([None]), measured([1.0])) is None


def test_exchange_of_an_accumulated_ratio():
    """Of two images, one decides: exchanging it turns the sign of the difference, so every exchange is as large."""
    row = METRICS["pixel-accuracy"]

    def many(*correct: float) -> list[Measured]:
        return [Measured({"correct": value, "labelled": 10.0}) for value in correct]

    assert exchange_test(row, many(9, 5), many(1, 5)) == 1
    found = exchange_test(row, many(*[9.0] * 12), many(*[1.0] * 12))
    assert found is not None
    assert found < 0.003  # 2 of 4096
