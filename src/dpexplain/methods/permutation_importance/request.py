"""What a caller decides about permutation importance, checked as far as it can be without a table."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpexplain.data.public_random import PublicRandom
from dpexplain.errors import InputError

METHODS = ("default", "marginals", "groups", "paper")
LIMITS = ("order", "interval")
MOST_DRAWS = 100


@dataclass(frozen=True, kw_only=True)
class PermutationImportance:
    """The request: everything about the release that a caller decides.

    target     the declared column that the model predicts
    features   whose importance is asked for (default: all that the model uses)
    loss       "squared" (default), "absolute", "log" or "accuracy"
    positive   the value of the target that counts as one, all others as zero (default: the label of the model)
    clip       the most by which the losses of one row (or group of rows) may change in all, in units of the loss; by
               default it is chosen from the data, with noise. `math.inf` for no limit
    limit      what large changes are limited for. "order" (default): the features' order, so low that many groups are
               limited; "interval": narrower intervals and a less certain order
    repeats    how many other values each row takes, one after the other (default: by forecast)
    floor      the least probability that the log loss takes a class to have
    method     where other values come from. "groups": from other rows of small groups; "marginals": from marginals that
               are handed over; "default": from marginals if some are handed over, else in groups.
               "paper": the published design, fixed permutations, Laplace noise, replace-one only
    mechanism  "discrete-laplace", "discrete-gaussian" or "cube"; decides the norm that changes are limited in
    seed       of the public permutations of the published design (rows are shuffled secretly before them);
               draws from histograms are secret, and have none
    """

    target: str
    features: Sequence[str] | None = None
    loss: str | None = None
    positive: Any = None
    clip: float | None = None
    limit: str = "order"
    repeats: int | None = None
    floor: float = 0.01
    method: str = "default"
    mechanism: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(
                f"unknown method {self.method!r}."[:200], hint="use " + ", ".join(f'"{name}"' for name in METHODS)
            )
        if self.limit not in LIMITS:
            raise InputError(f"unknown limit {self.limit!r}."[:200], hint='use "order" or "interval"')
        if isinstance(self.features, str) or (self.features is not None and not list(self.features)):
            raise InputError(
                "features must be a list of names.", hint='features=["age", "sex"], or leave it out for all'
            )
        if self.features is not None and not all(isinstance(name, str) for name in self.features):
            raise InputError("a feature is a name.")
        if self.features is not None and len(set(self.features)) < len(self.features):
            raise InputError("a feature is named twice.")
        number = isinstance(self.clip, int | float) and not isinstance(self.clip, bool)
        if self.clip is not None and not (number and (0 < self.clip <= sys.float_info.max or self.clip == math.inf)):
            raise InputError(f"clip must be a positive number; got {self.clip!r}.", hint="or leave it out")
        whole = isinstance(self.repeats, int) and not isinstance(self.repeats, bool)
        if self.repeats is not None and not (whole and 1 <= self.repeats <= MOST_DRAWS):
            raise InputError(f"repeats must be a whole number from 1 to {MOST_DRAWS}; got {self.repeats!r}.")
        if self.method == "paper" and (self.clip is not None or self.repeats is not None or self.limit != "order"):
            raise InputError('method="paper" has neither clip nor repeats, and no limit.', hint="leave them out")
        PublicRandom(self.seed)

    @property
    def label(self) -> str:
        names = "" if self.features is None else f": {', '.join(self.features)}"
        return f"permutation importance for {self.target}{names}"
