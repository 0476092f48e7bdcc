"""What `bench clusters --part posterior` says of the default: the figures of the form that it takes."""

from __future__ import annotations

from typing import Any

import pytest
from bench.cluster_posterior import EPSILONS, ONE, POSTERIOR, default_of, summary_of_default

SHARES = {POSTERIOR: [0.8, 0.9, 0.99, 0.99, 1.0, 1.0, 1.0], ONE: [0.5, 0.6, 0.7, 0.9, 0.98, 1.0, 1.0]}
LINE: dict[str, Any] = {"share of the best score": SHARES, "epsilon for 98 %": {POSTERIOR: 0.009, ONE: 0.1}}


def test_the_default_has_the_figures_of_what_it_takes():
    late = default_of(LINE, [POSTERIOR] * 3 + [ONE] * 4)
    assert late["share of the best score"] == [0.8, 0.9, 0.99, 0.9, 0.98, 1.0, 1.0]
    assert late["other is better"] == 2  # at the fourth and fifth epsilon
    assert late["epsilon for 98 % / one stage"] == pytest.approx(1)
    good = default_of(LINE, [POSTERIOR] * 7)
    assert good["other is better"] == 0
    assert 0.05 < good["epsilon for 98 % / one stage"] < 0.1
    assert summary_of_default([late, good]) == {
        "mean share": [0.8, 0.9, 0.99, 0.945, 0.99, 1.0, 1.0],
        "epsilon for 98 % / one stage": {
            "geometric mean": pytest.approx(good["epsilon for 98 % / one stage"] ** 0.5, abs=1e-3),
            "at most 0.2": 1,
            "cells": 2,
        },
        "the other form is better by more than 0.01": 2,
        "of": 2 * len(EPSILONS),
    }


def test_what_is_never_good_enough_has_no_ratio():
    never = {**LINE, "epsilon for 98 %": {POSTERIOR: 0.009, ONE: None}}
    assert default_of(never, [POSTERIOR] * 7)["epsilon for 98 % / one stage"] is None
