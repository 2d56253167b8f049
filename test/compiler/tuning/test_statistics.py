"""Statistics of measured times against scipy, textbooks and simulations."""

import math

import numpy as np
import pytest
from scipy import stats

from stepwell.tuning.statistics import block_effects, holm, mixture_radius, processes_needed, student_cdf, student_quantile, t_test


def test_student_s_distribution_is_scipy_s() -> None:
    for freedom in (1, 2, 3, 7.5, 19, 200):
        for t in (-40.0, -3.0, -0.5, 0.0, 0.1, 2.2, 9.0, math.inf, -math.inf):
            assert student_cdf(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), rel=1e-9, abs=1e-15)
        for probability in (1e-4, 0.025, 0.5, 0.9, 0.975, 0.9999):
            assert student_quantile(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-9, abs=1e-9)


def test_the_test_of_a_ratio_is_scipy_s() -> None:
    values = [-0.02, -0.011, 0.003, -0.015, -0.008, -0.001]
    ours, theirs = t_test(values), stats.ttest_1samp(values, 0, alternative="less")
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert ours.p == pytest.approx(theirs.pvalue)
    assert (ours.ratio.low, ours.ratio.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert ours.ratio.value == pytest.approx(math.exp(np.mean(values)))
    # Too few observations, or observations without any spread.
    assert (t_test([]).p, t_test([-1.0]).p, t_test([-1.0]).ratio.high) == (1.0, 1.0, math.inf)
    assert (t_test([-0.5, -0.5]).p, t_test([0.5, 0.5]).p) == (0.0, 1.0)


def test_holm_s_correction() -> None:
    # The example of https://en.wikipedia.org/wiki/Holm–Bonferroni_method: only the first and the fourth hypothesis are rejected at 5 %.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6, 1.0]) == [1.0, 1.0, 1.0]
    assert holm([]) == []


def test_a_confidence_sequence_holds_at_all_times_at_once() -> None:
    paths, steps, alpha = 4000, 400, 0.05
    sums = np.cumsum(np.random.default_rng(1).standard_normal((paths, steps)), axis=1)
    information = np.arange(1.0, steps + 1)
    means = np.abs(sums) / information
    left = np.mean((means > mixture_radius(information, alpha, tuned=20.0)).any(axis=1))
    assert 0.005 < left <= alpha
    # An interval for one time only is left far more often, if one looks at it at all times.
    assert np.mean((means > 1.96 / np.sqrt(information)).any(axis=1)) > 0.3
    # At the time that it is tuned for, it is not much wider than that interval.
    assert mixture_radius(np.array([20.0]), alpha, tuned=20.0)[0] < 1.6 * 1.96 / math.sqrt(20)
    assert mixture_radius(np.array([0.0]), alpha, tuned=20.0)[0] == math.inf


def test_effects_of_arms_do_not_depend_on_effects_of_blocks() -> None:
    generator = np.random.default_rng(2)
    arms, blocks = np.array([0.0, 0.1, -0.2, 0.05]), generator.standard_normal((9, 1))
    table = arms + blocks
    table[2, 1] = table[5, :] = np.nan
    table = np.column_stack([table, np.full(9, np.nan)])
    effects = block_effects(table)
    assert effects.means[:4] - effects.means[0] == pytest.approx(arms)
    assert np.isnan(effects.means[4])
    assert effects.counts.tolist() == [8, 7, 8, 8, 0]
    assert effects.squares == pytest.approx(0, abs=1e-20)
    assert block_effects(np.full((3, 2), np.nan)).freedom == block_effects(np.zeros((0, 2))).freedom == 0


def test_effects_survive_outliers_and_their_variance_is_unbiased() -> None:
    generator, squares, freedom, errors, plain = np.random.default_rng(3), 0.0, 0, [], []
    for _ in range(150):
        table = 0.01 * generator.standard_normal((8, 5)) + 0.3 * generator.standard_normal((8, 1))
        effects = block_effects(table)
        squares, freedom = squares + effects.squares, freedom + effects.freedom
        table += (generator.random((8, 5)) < 0.03) * generator.exponential(0.5, (8, 5))
        errors.append(np.diff(block_effects(table).means))
        plain.append(np.diff(table.mean(axis=0)))
    assert freedom == 150 * 7 * 4
    assert squares / freedom == pytest.approx(0.01**2, rel=0.06)
    without_outliers = 0.01 * math.sqrt(2 / 8)
    assert np.std(errors) < 1.5 * without_outliers
    assert np.std(plain) > 5 * without_outliers


def test_as_many_processes_as_the_power_needs() -> None:
    generator = np.random.default_rng(4)
    for mean, deviation, alpha in ((-0.01, 0.01, 0.05), (-0.008, 0.006, 0.005)):
        count = math.ceil(processes_needed(mean, deviation, alpha))
        samples = generator.normal(mean, deviation, (600, count))
        rejected = np.mean([t_test(row.tolist()).p <= alpha for row in samples])
        assert 0.87 <= rejected <= 0.97
    assert processes_needed(0.0, 0.01, 0.05) == math.inf
