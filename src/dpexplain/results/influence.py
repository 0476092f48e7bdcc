"""Influences of inputs on outcomes, from released sums: for everybody, a group, or what sets a group apart.

A sum of influences is one released number, or the difference of two: the outcomes as they are and with inputs replaced.
Divided by the number of rows of the group it is a mean. With s the standard deviation of the noise of one number,
1 / x the part of the base's noise, kappa the mean in whole steps and w the weight of the count,

    variance of the sum less kappa times the count = s^2 (1 + 1 / x^2 + kappa^2 / w^2) + Monte Carlo error

"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Noise, checked_level
from dpexplain.errors import InputError
from dpexplain.results.base import Floats, Receipt, Result
from dpexplain.results.disparity import Disparity
from dpexplain.results.marginals import Marginals
from dpexplain.results.tails import combined_halfwidth

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

AGGREGATES = {"unary": "", "shapley": "Shapley values", "banzhaf": "Banzhaf values"}
ENOUGH = 4  # times the 95 % noise of a count: a group that is smaller is too small to be spoken of
NORMAL = 1.96
MOST_OUTCOMES, MOST_ROWS = 2**18, 2**40  # questions about one row, and rows that they are counted for
SPARE = 2  # times the predictions by which chance would be as large as the noise: what is advised
SMALL = 0.005  # of the range of outcomes: a half-width of chance that is not worth many more predictions
SOURCE = "Values came from released histograms: the noise and the width of their cells are not in these intervals."
ESTIMATED = "What the drawn orders or sets add is estimated on synthetic rows, and may be more."
UNSEEN = 2.0  # standard deviations by which a share may be larger than what was drawn says


@dataclass(frozen=True)
class Influence(Result):
    """Influences of features, or of sets of them, in units of the outcome; of a class 0.2 means 20 of 100."""

    @property
    @abstractmethod
    def quantity(self) -> str:
        """What was asked: average, group, disparity, individual or actual."""

    @property
    @abstractmethod
    def aggregate(self) -> str:
        """unary, shapley or banzhaf."""

    @property
    @abstractmethod
    def items(self) -> list[str]:
        """The features, or sets of them, in the order of `values`."""

    @property
    @abstractmethod
    def is_class(self) -> bool:
        """Whether the outcome is a class, and not a score."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What is drawn, in words."""

    @property
    @abstractmethod
    def unit_words(self) -> str:
        """What the numbers are, in words."""

    @abstractmethod
    def sentence(self, item: str, value: float) -> str:
        """One influence in plain words, without its interval."""

    @property
    def directed(self) -> bool:
        """Whether a sentence says that an influence raises or lowers, and then how far, without a sign."""
        return True

    @property
    def caveat(self) -> str:
        """What a reader has to know besides."""
        return ""

    @cached_property
    def order(self) -> list[int]:
        """The items by the size of their influence, the largest first; of equal ones, the earlier one."""
        return [int(i) for i in np.argsort(-np.abs(self.values), kind="stable")]

    @cached_property
    def sure(self) -> NDArray[np.bool_]:
        """For each item, whether its 95 % interval excludes zero; otherwise chance could explain its influence."""
        low, high = self.interval()
        return (low > 0) | (high < 0)

    def sentences(self, top: int = 5) -> list[str]:
        """The largest influences in plain words, the largest first."""
        if isinstance(top, bool) or not isinstance(top, int) or top < 1:
            raise InputError(f"top is a whole number of at least 1; got {top!r}.", spent="")
        low, high = self.interval()
        said = []
        for i in self.order[:top]:
            ends = (
                sorted(-end for end in (low[i], high[i])) if self.directed and self.values[i] < 0 else (low[i], high[i])
            )
            reach = f"95 % interval: {self.number(ends[0])} to {self.number(ends[1])}"
            doubt = "" if self.sure[i] else "; it may be nothing at all"
            said.append(f"{self.sentence(self.items[i], float(self.values[i]))} ({reach}{doubt}).")
        return [*said, self.caveat] if self.caveat else said

    def number(self, value: float) -> str:
        """A value as people write it: in per cent for a class."""
        return f"{100 * value:.3g} %" if self.is_class else f"{value:.3g}"

    def to_frame(self) -> pd.DataFrame:
        """One line for each item, in their public order."""
        import pandas as pd

        low, high = self.interval()
        columns = {"item": self.items, "influence": self.values, "low": low, "high": high}
        return pd.DataFrame({**columns, "determined": self.determined()})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars from zero with their intervals, the largest at the top. Faint: chance could explain it."""
        from dpexplain.render.influence import plot_influence

        return plot_influence(self, ax)


@dataclass(frozen=True)
class TableInfluence(Influence):
    """Influences over a table. Intervals cover the mean over the (cleaned) rows of the expected influence, values being
    drawn from the *released* histograms: the noise of sums and counts, and chance: that of the draws, of the rows that
    were used where these are not all, and of orders or sets of inputs; of those that all rows share (`samples`) it is
    estimated on synthetic rows.

    Where the released number of rows of a group is too small, nothing is said: values are zero and intervals are the
    whole range (`conclusive`, `note`).
    """

    sampling: tuple[float, ...] = ()  # standard deviation that drawn orders or sets add to each value; public
    known: Marginals | None = field(default=None, compare=False, repr=False)  # what was handed over, not in files

    kind: ClassVar[str] = "influence"

    # What was asked ---------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> JsonObject:
        spec: JsonObject = self.receipt.request["spec"]
        return spec

    @property
    def quantity(self) -> str:
        return str(self.spec["quantity"])

    @property
    def aggregate(self) -> str:
        return str(self.spec["aggregate"])

    @property
    def items(self) -> list[str]:
        return [" + ".join(item) for item in self.spec["items"]]

    @property
    def given(self) -> list[str]:
        """What is replaced beside each item, before and after."""
        return [str(name) for name in self.spec["given"]]

    @property
    def group(self) -> str | None:
        """Who is spoken of, in words; None for everybody."""
        found = self.spec["group"]
        return None if found is None else str(found["words"])

    @cached_property
    def output(self) -> PublicRange:
        """The range of outcomes."""
        return PublicRange.from_json(self.spec["outcome"]["range"])

    @property
    def is_class(self) -> bool:
        return self.spec["outcome"]["threshold"] is not None

    @property
    def title(self) -> str:
        model = self.receipt.request["model"]["name"]
        who = {
            "average": "Influence on the outcomes of everybody",
            "group": f"Influence on the outcomes where {self.group}",
            "disparity": f"Influence on how outcomes differ where {self.group}",
        }[self.quantity]
        how = AGGREGATES[self.aggregate]
        return f"{who}, model {model}" + (f" ({how})" if how else "")

    @property
    def unit_words(self) -> str:
        if self.quantity == "average":
            return "share of rows whose outcome changes" if self.is_class else "mean change of the score"
        rate = "rate of positive outcomes" if self.is_class else "mean score"
        return f"part of the {rate}" if self.quantity == "group" else f"part of the difference in the {rate}"

    def sentence(self, item: str, value: float) -> str:
        number, given = self.number(abs(value)), f" (beside {' + '.join(self.given)})" if self.given else ""
        points = number.replace(" %", " percentage points")
        if self.quantity == "average":
            if self.aggregate != "unary" or self.given:
                part = self.number(value)
                return f"{item}{given} has a part of {part} in what replaced inputs change" + self._of_outcomes
            if self.is_class:
                return f"For {number} of the rows the outcome changes when {item} is replaced by other people's values"
            return f"The score changes by {number} on average when {item} is replaced by other people's values"
        rate = "rate of positive outcomes" if self.is_class else "mean score"
        verb = "raises" if value >= 0 else "lowers"
        if self.quantity == "group":
            return f"Where {self.group}, {item}{given} {verb} the {rate} by {points}"
        return f"{item}{given} {verb} the {rate} where {self.group}, compared with all others, by {points}"

    def sentences(self, top: int = 5) -> list[str]:
        return super().sentences(top) if self.note is None else [self.note]

    @property
    def directed(self) -> bool:
        return self.quantity != "average"

    @property
    def _of_outcomes(self) -> str:
        return " (of all outcomes)" if self.is_class else " (of the score)"

    @property
    def caveat(self) -> str:
        if self.note is not None:
            return self.note
        used = SOURCE if self.spec["method"] != "paper" else ""
        used += f" {ESTIMATED}" if self.spec["samples"] else ""
        used += f" One row in {self._one_in:,} was used, chosen at random." if self._one_in > 1 else ""
        if not self._mostly_drawn:
            return used.strip()
        most = max(drawn for _, drawn in map(self._coefficients, range(len(self.items)))) * self._step
        half = f"up to ±{self.number(NORMAL * most).replace(' %', ' percentage points')}"
        said = f"Chance in what was drawn is in these intervals, and is more than the noise: {half}"
        remedy = "" if NORMAL * most <= SMALL * self.output.width else f"; {self._remedy}"
        return f"{used} {said}{remedy}.".strip()

    @property
    def _remedy(self) -> str:
        """What would bring chance below the noise, or nearer to it, in words. Twice as many predictions halve the
        variance of chance, or leave less of it, where a feature can then be gone through point by point.
        """
        spec, ended = self.spec, self.spec.get("ended")
        if ended is not None and ended["asked"] == ended["most"] and self._one_in == 1:
            return f"more cannot be drawn: a row is asked about at most {ended['most']:,} times"
        if ended is not None:
            most, taken = ended["most"] * ended["each"], ended["asked"] * ended["each"] / self._one_in
            needed = SPARE * self._chance * taken
            advised, banzhaf = rounded_up(min(needed, most)), self.aggregate == "banzhaf"
            # with other sets, drawn Banzhaf values have another noise
            below = ended["whole"] or (needed <= most and not (banzhaf and spec["samples"]))
            return f"most_predictions={advised:_} would bring it {'below' if below else 'nearer to'} the noise"
        more = "more samples" if spec["samples"] or self.aggregate == "unary" else "exact=True with more samples"
        return f"{more} would help"

    @property
    def _single(self) -> bool:
        """Whether each item is one feature, replaced by itself."""
        return self.aggregate == "unary" and not self.given and all(len(item) == 1 for item in self.spec["items"])

    # Released numbers -------------------------------------------------------------------------------------------------

    @cached_property
    def marginals(self) -> Marginals | None:
        """The released histograms that values were drawn from, to be used again; None if they came from other rows, or
        if a file was read whose marginals stand in a file of their own.
        """
        return Marginals(self.receipt, self.released) if self.spec["partitions"] else self.known

    @cached_property
    def _released(self) -> tuple[Floats, Noise]:
        values, noise = self.part("influences")
        return values.astype(np.float64), noise

    @property
    def _blocks(self) -> int:
        return 2 if self.quantity == "disparity" else 1

    @property
    def _one_in(self) -> int:
        """Each row was used with probability one in so many."""
        return int(self.spec.get("one_in", 1))

    @property
    def _lines(self) -> int:
        return len(self.items) + bool(self.spec["base_weight"]) + bool(self.spec.get("outcome_weight"))

    @cached_property
    def _blocked(self) -> Floats:
        """All sums, in whole steps: one line for everybody or the group, another one for all others."""
        values, _ = self._released
        return values[: self._blocks * self._lines].reshape(self._blocks, self._lines)

    @cached_property
    def _sums(self) -> Floats:
        """The sums of influences."""
        x, lines = self.spec["base_weight"], self._blocked[:, : len(self.items) + bool(self.spec["base_weight"])]
        return lines[:, 1:] + lines[:, :1] / x if x else lines

    @cached_property
    def disparity(self) -> Disparity | None:
        """The rates of the group and of all others, their difference and ratio; None where these were not asked for, or
        not released (by earlier versions for Shapley and Banzhaf values, and beside given features).
        """
        spec = self.spec
        weight = spec.get("outcome_weight") or (0 if spec["given"] else spec["base_weight"])
        if self.quantity != "disparity" or not weight:
            return None
        _, noise = self._released
        model = self.receipt.request["model"]
        return Disparity(
            group=str(self.group),
            sums=self._blocked[:, -1 if spec.get("outcome_weight") else 0] / weight,
            counts=self.counts,
            noise=noise,
            weight=weight,
            count_weight=spec["count_weight"],
            one_count=self._one_count,
            output=self.output,
            used=1 / self._one_in,
            conclusive=self.conclusive,
            threshold=spec["outcome"]["threshold"],
            model=(str(model["name"]), model["label"], PublicRange.from_json(model["output"])),
        )

    @property
    def _one_count(self) -> bool:
        """Whether the sizes of both groups have one noise, because together they are all rows."""
        return bool(self._blocks == 2 and self.spec["counts"] == 1)

    @cached_property
    def counts(self) -> Floats:
        """The number of rows of each group, public or released: everybody; or the group, and for a disparity all
        others.
        """
        values, _ = self._released
        w, rows = self.spec["count_weight"], self.receipt.request["table"]["rows"]
        found = values[self._blocks * self._lines :] / w if w else np.empty(0)
        if len(found) == self._blocks:
            return found
        if rows is None or len(found) != self._blocks - 1 + (self.quantity == "group"):
            raise ValueError("the counts do not fit the request")
        return np.array([float(rows)]) if not len(found) else np.array([found[0], rows - found[0]])

    @cached_property
    def _kappa(self) -> Floats:
        """The mean of the summed influences in whole steps, without what centring took off."""
        return self._sums / np.maximum(self.counts, 1.0)[:, None]

    @property
    def _step(self) -> float:
        return self.output.width / self.output.levels

    @property
    def _lift(self) -> float:
        """What centring took off every row's influence, in whole steps."""
        return self.output.levels / 2 if self.spec["centred"] and not self.spec["base_weight"] else 0.0

    @cached_property
    def values(self) -> Floats:
        if not self.conclusive:
            return np.zeros(len(self.items))
        return self._inside(self._middle)

    @cached_property
    def _middle(self) -> Floats:
        means: Floats = (self._kappa + self._lift) * self._step
        difference: Floats = means[0] - means[1] if self._blocks == 2 else means[0]
        return difference

    def _inside(self, numbers: Floats) -> Floats:
        """No influence is larger than the range of outcomes, of a difference twice that; a plain change has no sign."""
        inside: Floats = np.clip(numbers, *self.possible)
        return inside

    @property
    def possible(self) -> tuple[float, float]:
        plain = self.quantity == "average" and self.aggregate == "unary" and not self.given
        most = self.output.width * self._blocks
        return 0.0 if plain else -most, most

    # Noise ------------------------------------------------------------------------------------------------------------

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        checked_level(level)
        if not self.conclusive:
            most = np.full(len(self.items), self.output.width * self._blocks)
            return self._inside(-most), self._inside(most)
        half = np.array([self._halfwidth(j, level) for j in range(len(self.items))])
        return self._inside(self._middle - half), self._inside(self._middle + half)

    def _halfwidth(self, item: int, level: float) -> float:
        """Of one influence, to first order in the noise of counts, and widened by what the second order can add."""
        _, noise = self._released
        coefficients, drawn = self._coefficients(item)
        half = combined_halfwidth([(noise, coefficients)], drawn, level)
        w = self.spec["count_weight"]
        unsure = noise.halfwidth(level) / (w * self.counts.min()) if w else 0.0
        return (half / (1 - min(unsure, 0.5) ** 2) + 1) * self._step

    def _coefficients(self, item: int) -> tuple[list[float], float]:
        """How each noisy number moves one influence, and the standard deviation of what is drawn; in whole steps."""
        spec, counts, kappa = self.spec, self.counts, self._kappa[:, item]
        each = [1 / n for n in counts]
        found = [*each, *([a / spec["base_weight"] for a in each] if spec["base_weight"] else [])]
        if spec["count_weight"]:
            by_count = [k / n / spec["count_weight"] for k, n in zip(kappa, counts, strict=True)]
            found += [sum(by_count)] if self._one_count else by_count
        drawn = sum(self._drawn(item, block) ** 2 / counts[block] for block in range(self._blocks))
        sampled = (self.sampling[item] / self._step) ** 2 if self.sampling else 0.0
        return found, math.sqrt(drawn + sampled)

    @property
    def _mostly_drawn(self) -> bool:
        """Whether the Monte Carlo error of some influence is larger than the noise."""
        return self._chance > 1

    @cached_property
    def _chance(self) -> float:
        """How many times the variance of the noise the Monte Carlo error has, of the influence with most of it."""
        _, noise = self._released
        found = [self._coefficients(item) for item in range(len(self.items))]
        beside = [(drawn, noise.std * math.hypot(*coefficients)) for coefficients, drawn in found]
        ratio = max(drawn / std if std else math.inf if drawn else 0.0 for drawn, std in beside)
        return ratio * ratio

    def _drawn(self, item: int, block: int) -> float:
        """At most the standard deviation of one row's influence over what is drawn, in whole steps.

        A mean over d draws of a number in a range of length r varies by r / (2 sqrt(d)) at most, whether they are
        independent or each from a d-th part of the distribution. Where rows are drawn too, a number of a random row and
        a random draw has a variance of r^2 / 4 at most, that between rows and that within them together. For the
        average r = 1, and numbers in {0..1} with mean m vary by sqrt(m (1 - m)), over rows by no more than that of
        their mean; m is taken where it is largest within what noise and chance may have hidden.
        """
        spec, K = self.spec, float(self.output.levels)
        if self._one_in == 1 and set(spec["items"][item]) <= set(spec["listed"]):
            return 0.0  # every point of its distribution was asked about
        spread = chance_spread(self.quantity, self.aggregate, self.given, self._one_in)
        heaviest = heaviest_draw(spec["samples"], spec["draws"], self._one_in)
        if self.quantity == "average" and self.aggregate == "unary" and not self.given:
            _, noise = self._released
            m = max(0.0, (self._kappa[block, item] + self._lift + 2 * noise.std / self.counts[block]) / K)
            unseen = UNSEEN**2 * heaviest / self.counts[block]
            m += unseen / 2 + math.sqrt(m * unseen + unseen**2 / 4)
            spread = math.sqrt(m * (1 - m)) if m < 0.5 else spread
        return spread * K * math.sqrt(heaviest)

    # Small groups -----------------------------------------------------------------------------------------------------

    @cached_property
    def needed(self) -> float:
        """How many rows a group must have so that something can be said about it at this price."""
        if not self.spec["count_weight"]:
            return 0.0
        _, noise = self._released
        x = self.spec["base_weight"]
        half = combined_halfwidth([(noise, [1.0, 1 / x] if x else [1.0])], 0.0, 0.95)
        return float(max(ENOUGH * noise.halfwidth(0.95) / self.spec["count_weight"], 2 * half / self.output.levels))

    @cached_property
    def conclusive(self) -> bool:
        """False where a released number of rows is so small that the noise would say more than the rows."""
        return bool((self.counts >= self.needed).all())

    @property
    def note(self) -> str | None:
        """What is missing for an answer, in words; None where there is one."""
        if self.conclusive:
            return None
        small = int(np.argmin(self.counts))
        who = (
            "The table"
            if self.group is None
            else f"The group ({self.group})"
            if small == 0
            else "All others than the group"
        )
        found = max(0.0, float(self.counts[small]))
        verb = "are" if who.startswith("All") else "is"
        said = f"{who} {verb} too small for an answer at this price: about {found:,.0f} rows were counted, "
        said += f"and {math.ceil(self.needed):,} are needed"
        if found < self.needed / 100:
            return f"{said}."
        more = self.needed / found
        price = self.receipt.budget.epsilon_of(self.receipt.cost) * more
        return f"{said}, or an epsilon of about {price:.2g}."

    # Files ------------------------------------------------------------------------------------------------------------

    def view(self) -> JsonObject:
        return {"sampling": list(self.sampling)}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> TableInfluence:
        if set(view) != {"sampling"} or not all(isinstance(s, float) and s >= 0 for s in view["sampling"]):
            raise ValueError("no view of an influence")
        found = cls(receipt, released, tuple(view["sampling"]))
        found.check()
        return found

    def check(self) -> None:
        """What can be read can be shown: an error here, and not later, for a file that was tampered with."""
        items, spec = self.items, self.spec
        own, weight = spec.get("own", False), spec.get("outcome_weight", 0)
        numbers = [spec["base_weight"], spec["count_weight"], spec["draws"], weight, spec.get("one_in", 1)]
        if not items or not all(type(n) is int and 0 <= n < 2**40 for n in numbers) or spec["draws"] < 1:
            raise ValueError("no influence of ours")
        if self._one_in < 1 or type(own) is not bool or (own and (self.aggregate == "unary" or spec["samples"])):
            raise ValueError("no influence of ours")
        if (weight and self.quantity != "disparity") or spec["counts"] not in (0, 1, 2):
            raise ValueError("no influence of ours")
        self._check_end()
        ends = np.concatenate([*self.interval(), self.values])
        drawn = 0 if spec["samples"] is None else len(items)
        if len(ends) != 3 * len(items) or len(self.sampling) != drawn or not np.isfinite(ends).all():
            raise ValueError("the influences do not fit the features")
        if (spec["group"] is None) != (self.quantity == "average") or not self.title or not self.sentences():
            raise ValueError("no influence of ours")
        if self.disparity is not None and not self.disparity.sentences:
            raise ValueError("no influence of ours")

    def _check_end(self) -> None:
        """What is said to have ended the draws fits what was asked and how many rows there are."""
        spec, ended, rows = self.spec, self.spec.get("ended"), self.receipt.request["table"]["rows"]
        if ended is None:
            return
        numbers = [ended["asked"], ended["most"], ended["each"]]
        if set(ended) != {"asked", "most", "each", "whole"} or not all(type(n) is int and n > 0 for n in numbers):
            raise ValueError("no end of ours")
        inputs, samples = len(self.items), spec["samples"]
        if samples is not None:
            asked = samples * (inputs if self.aggregate == "shapley" else 1)
        elif spec.get("own"):
            asked = spec["draws"] * (2 * inputs - 1 if self.aggregate == "shapley" else 2)
        else:
            asked = spec["draws"] * (inputs + bool(self.given) if self.aggregate == "unary" else 2**inputs - 1)
        fits = ended["asked"] <= asked if self._single else ended["asked"] == asked
        each = range(1, MOST_ROWS + 1) if rows is None else range(rows, max(rows, 2**12) + 1)
        if not fits or not ended["asked"] <= ended["most"] <= MOST_OUTCOMES or ended["each"] not in each:
            raise ValueError("the end of the draws does not fit them")
        if type(ended["whole"]) is not bool or (ended["whole"] and not self._single) or spec["method"] == "paper":
            raise ValueError("no end of ours")


def heaviest_draw(samples: int | None, draws: int, one_in: int = 1) -> float:
    """The part of an influence that its heaviest draw has, which bounds what all of them together vary by. Pairs of
    drawn orders (or sets) take turns with the draws. Where a row is drawn too, all its draws share it.
    """
    heaviest = 1 / draws if samples is None else min(1.0, 2 * math.ceil(math.ceil(samples / 2) / draws) / samples)
    return max(heaviest, 1 - 1 / one_in)


def chance_spread(quantity: str, aggregate: str, given: Sequence[str], one_in: int) -> float:
    """At most the standard deviation of one row's influence over one draw, in units of the range: half the length of
    where it can lie. That is [0, 1] if the outcome after an intervention is all that chance decides about, or if only
    the size of a change counts; and otherwise [-1, 1].
    """
    plain = aggregate == "unary" and not given
    return 0.5 if plain and (one_in == 1 or quantity == "average") else 1.0


def rounded_up(number: float) -> int:
    """To two digits."""
    whole = math.ceil(number)
    unit: int = 10 ** max(0, len(str(whole)) - 2)
    return -(-whole // unit) * unit
