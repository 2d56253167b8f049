"""Headroom: which site is worth trying next."""

from dataclasses import replace
from math import log

import pytest
from every import every

from stepwell.tuning.headroom import BATCH, HALVED, PRIOR_TRUST, UNSEEN, Attempt, Prospect, SiteState, expected_gain, headroom, in_order, trust, worth

FASTER = log(0.8)
SITE = SiteState("site", share=0.2, prospects=(Prospect(FASTER), Prospect(log(0.95))), seconds=0.5)


def test_the_formula() -> None:
    assert trust(SITE) == PRIOR_TRUST
    assert headroom(SITE) == pytest.approx(PRIOR_TRUST * 0.2 + UNSEEN)
    assert headroom(SITE, HALVED) == pytest.approx(headroom(SITE) / 2)
    assert worth(SITE, HALVED) == pytest.approx(0.2 * headroom(SITE) / 2 / (HALVED * 0.5))
    assert headroom(replace(SITE, prospects=(Prospect(0.5),))) == UNSEEN, "a slower candidate is no loss"
    doubtful = replace(SITE, prospects=(Prospect(FASTER, chance=0.5), Prospect(log(0.95), chance=0.9)))
    assert headroom(doubtful) == pytest.approx(PRIOR_TRUST * 0.1 + UNSEEN)


TRIED = (Attempt(FASTER, FASTER),) * 3
BETTER = [
    (SITE, replace(SITE, share=0.1)),
    (SITE, replace(SITE, seconds=1.0)),
    (SITE, replace(SITE, prospects=(Prospect(log(0.9)),))),
    (SITE, replace(SITE, prospects=(Prospect(FASTER, chance=0.2),))),
    (replace(SITE, attempts=TRIED), replace(SITE, attempts=(Attempt(FASTER, 0.1),) * 3)),
    (replace(SITE, attempts=TRIED), replace(SITE, attempts=(Attempt(FASTER, None),) * 3)),
    (replace(SITE, attempts=TRIED), replace(SITE, attempts=(Attempt(FASTER, FASTER / 2),) * 3)),
    (SITE, replace(SITE, attempts=(Attempt(0.1, 0.1),) * 3)),
    (replace(SITE, attempts=(Attempt(None, 0.1),) * 3), replace(SITE, attempts=(Attempt(None, 0.1),) * 9)),
    (SITE, replace(SITE, share=0.0)),
]


@every("better, worse", BETTER, ids=str)
def test_what_makes_a_site_worth_more(better: SiteState, worse: SiteState) -> None:
    """Time, cheap candidates, predicted gains, and predictions that came true; and that little was tried."""
    first, second = replace(better, name="better"), replace(worse, name="worse")
    assert in_order([second, first])[0].name == "better"
    assert worth(first) > worth(second) >= 0


def test_trust_follows_what_comes_true() -> None:
    right, wrong = (trust(replace(SITE, attempts=(Attempt(FASTER, measured),) * 50)) for measured in (-1.0, 0.5))
    assert 0.98 < right <= 1
    assert 0 <= wrong < 0.02
    assert trust(replace(SITE, attempts=(Attempt(0.3, -0.2), Attempt(None, None)))) == PRIOR_TRUST, "nothing was promised"


def test_a_site_without_candidates_gains_nothing() -> None:
    assert headroom(replace(SITE, prospects=())) == 0
    assert in_order([replace(SITE, prospects=()), SITE]) == [SITE]
    assert in_order([]) == []
    same = [replace(SITE, name=name) for name in "cab"]
    assert in_order(same) == same


def test_the_gain_of_going_on() -> None:
    other = replace(SITE, name="other", share=0.5, seconds=2.0)
    batch, sites = 0.5 * BATCH, [SITE, other]
    once = 0.2 * (headroom(SITE) - headroom(SITE, BATCH))
    assert expected_gain(sites, batch) == pytest.approx(once), "one batch fits, that of the cheap site"
    assert expected_gain(sites, batch - 0.01) == 0
    dear = replace(SITE, name="dear", share=0.8, seconds=1.0)
    assert in_order([SITE, dear])[0] == dear
    assert expected_gain([SITE, dear], batch) == pytest.approx(once), "a batch of the site that is worth more does not fit"
    assert expected_gain([SITE], 2 * batch) == pytest.approx(0.2 * (headroom(SITE) - headroom(SITE, 2 * BATCH)))
    gains = [expected_gain(sites, seconds) for seconds in (0, 16, 80, 160, 600, 1e4, 1e9)]
    assert gains == sorted(gains)
    assert gains[-1] == pytest.approx(0.2 * headroom(SITE) + 0.5 * headroom(other), rel=0.02), "all that is left"
    assert expected_gain([], 100) == expected_gain([replace(SITE, prospects=())], 100) == 0
