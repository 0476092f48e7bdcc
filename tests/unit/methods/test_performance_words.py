"""What a performance says where noise leaves little to say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from stubs import SteadyNoise

GROUPS = {"large": 4_000, "other": 3_000, "tiny": 3}
DOMAIN = dpx.Domain(
    {"score": dpx.Numeric(1, 4, integer=True), "kind": dpx.Categorical(list(GROUPS)), "yes": dpx.Categorical([0, 1])}
)


def rows_of(rates: dict[str, float]) -> pd.DataFrame:
    """Half of each group has happened; so many of the others have a high score."""
    parts = []
    for kind, many in GROUPS.items():
        yes = np.arange(many) % 2
        place = np.arange(many) / many
        score = np.where(yes == 1, 3, np.where(place < rates[kind], 4, 1))
        parts.append(pd.DataFrame({"score": score, "kind": kind, "yes": yes}))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def perf_of(make_table):
    def perf(**rates: float):
        table = make_table(rows_of(rates), domain=DOMAIN)
        table.door = dpx.core.release.Door(table.door.account, sampler=SteadyNoise())
        return dpx.performance(table, "score", "yes", ["kind"], threshold=3, epsilon=0.5)

    return perf


def sentence(perf, start: str) -> str:
    (found,) = [words for words in perf.findings if words.startswith(start)]
    return found


def test_a_group_too_small_to_tell_stays_in_the_interval_and_is_spoken_of(perf_of):
    perf = perf_of(large=0.45, other=0.2, tiny=1.0)
    assert not perf.figure("false_positive_rate", group={"kind": "tiny"}).determined
    apart = perf.false_positive_rate_difference("kind")
    assert apart.value == pytest.approx(0.25, abs=0.03)  # noise from a fixed seed
    assert apart.low > 0.2
    assert apart.high > 0.75  # that of the small group is 1, against 0.2
    said = sentence(perf, "False positive rate")
    assert "for large against" in said
    assert "for other: the noise does not explain" in said
    assert said.endswith("1 group is not determined with this epsilon and may differ by more.")


def test_groups_that_noise_cannot_tell_apart(perf_of):
    perf = perf_of(large=0.3, other=0.3, tiny=0.3)
    said = sentence(perf, "False positive rate by kind: the groups cannot be told apart with this epsilon.")
    most = 100 * perf.false_positive_rate_difference("kind").high
    assert f"may differ by up to {most:.0f} percentage points" in said
    assert "does not explain" not in said


def test_four_fifths_is_left_open_where_a_group_may_be_below(perf_of):
    """All rows of two groups that did happen have a high score: their selection rates are alike."""
    perf = perf_of(large=0.3, other=0.3, tiny=0.3)
    assert "cannot be told with this epsilon" in perf.four_fifths("kind").sentence
    assert perf.four_fifths("kind").low < 0.8
    below = perf_of(large=1.0, other=0.0, tiny=0.3).four_fifths("kind")
    assert below.high < 0.8
    assert below.sentence.endswith("below four fifths.")


def test_a_score_that_is_no_probability_says_what_is_left_out(perf_of):
    perf = perf_of(large=0.3, other=0.3, tiny=0.3)
    assert "The score is no probability" in perf.caveat
    assert "they do not say what other people would show" in perf.caveat
    with pytest.raises(dpx.errors.InputError, match="about probabilities"):
        perf.figure("brier_score")


def test_equal_scores_are_spoken_of(perf_of):
    assert sentence(perf_of(large=0.3, other=0.3, tiny=0.3), "AUC").endswith("times of 100 (equal scores count half).")


def test_sentences_where_nothing_is_determined(make_table):
    """Each says what is not determined, and none has that in the place of a number."""
    domain = dpx.Domain({**DOMAIN, "cost": dpx.Numeric(0, 100)})
    rows = rows_of({"large": 0.3, "other": 0.3, "tiny": 0.3}).head(30).assign(cost=50.0)
    table = make_table(rows, domain=domain, exact=True)  # the noise's law alone decides what is determined
    few = dpx.performance(table, "score", "yes", threshold=3, epsilon=0.001)
    assert few.findings == [
        "AUC is not determined with this epsilon.",
        "A score of at least 3 counts as positive; how often that is right is not determined with this epsilon.",
    ]
    numbers = dpx.performance(table, "score", "cost", epsilon=0.001)
    assert numbers.findings == [
        "How far predictions of cost are off is not determined with this epsilon.",
        "R2 is not determined with this epsilon.",
        "The mean residual (target less prediction) is not determined with this epsilon.",
    ]
