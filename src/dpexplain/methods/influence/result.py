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
from dpexplain.maths.tails import combined_halfwidth
from dpexplain.methods.influence.disparity import Disparity
from dpexplain.methods.influence.spec import Asked, Spec
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

AGGREGATES = {"unary": "", "shapley": "Shapley values", "banzhaf": "Banzhaf values"}
ENOUGH = 4  # times the 95 % noise of a count: a group that is smaller is too small to be spoken of
NORMAL = 1.96
SPARE = 2  # times the predictions by which chance would be as large as the noise: what is advised
SMALL = 0.005  # of the range of outcomes: a half-width of chance that is not worth many more predictions
SOURCE = "Values came from released histograms: the noise and the width of their cells are not in these intervals."
OTHERS = "All others than the group"
ONE_BLOCK = 2**12  # predictions that a question takes at least, in any version
ESTIMATED = "What the drawn orders or sets add is estimated on synthetic rows, and may be more."
UNSEEN = 2.0  # standard deviations by which a share may be larger than what was drawn says


@dataclass(frozen=True)
class Influence(Result):
    """Influences of features, or of sets of them, in units of the outcome; of a class 0.2 means 20 of 100."""

    @property
    @abstractmethod
    def asked(self) -> Asked:
        """What was asked."""

    @property
    def quantity(self) -> str:
        """average, group, disparity, individual or actual."""
        return self.asked.quantity

    @property
    def aggregate(self) -> str:
        """unary, shapley or banzhaf."""
        return self.asked.aggregate

    @property
    def items(self) -> list[str]:
        """The features, or sets of them, in the order of `values`."""
        return [" + ".join(item) for item in self.asked.items]

    @property
    def output(self) -> PublicRange:
        """The range of outcomes."""
        return self.asked.outcome.range

    @property
    def is_class(self) -> bool:
        """Whether the outcome is a class, and not a score."""
        return self.asked.outcome.is_class

    @property
    @abstractmethod
    def title(self) -> str:
        """What is drawn, in words."""

    @property
    @abstractmethod
    def unit_words(self) -> str:
        """What the numbers are, in words."""

    @abstractmethod
    def sentences(self, top: int = 5) -> list[str]:
        """The largest influences in plain words, the largest first."""

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
    spec_type: ClassVar[type[Spec]] = Spec

    # What was asked ---------------------------------------------------------------------------------------------------

    @property
    def asked(self) -> Spec:
        spec: Spec = self.spec
        return spec

    @property
    def group(self) -> str | None:
        """Who is spoken of, in words; None for everybody."""
        return None if self.spec.group is None else self.spec.group.describe()

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
        return (
            f"part of the {self._rate}" if self.quantity == "group" else f"part of the difference in the {self._rate}"
        )

    @property
    def _rate(self) -> str:
        return "rate of positive outcomes" if self.is_class else "mean score"

    def sentence(self, item: str, value: float) -> str:
        """One influence in plain words, without its interval."""
        number, given = self.number(abs(value)), self.spec.given
        who = f"{item} (beside {' + '.join(given)})" if given else item
        if self.quantity == "average":
            if not self.spec.plain:
                whole = "(of all outcomes)" if self.is_class else "(of the score)"
                return f"{who} has a part of {self.number(value)} in what replaced inputs change {whole}"
            if self.is_class:
                return f"For {number} of the rows the outcome changes when {item} is replaced by other people's values"
            return f"The score changes by {number} on average when {item} is replaced by other people's values"
        verb, points = "raises" if value >= 0 else "lowers", number.replace(" %", " percentage points")
        if self.quantity == "group":
            return f"Where {self.group}, {who} {verb} the {self._rate} by {points}"
        return f"{who} {verb} the {self._rate} where {self.group}, compared with all others, by {points}"

    def sentences(self, top: int = 5) -> list[str]:
        top = checked_top(top)
        if self.note is not None:
            return [self.note]
        (low, high), said = self.interval(), []
        for i in self.order[:top]:
            ends = [low[i], high[i]]
            if self.quantity != "average" and self.values[i] < 0:  # "lowers": how far, without a sign
                ends = [-high[i], -low[i]]
            reach = f"95 % interval: {self.number(ends[0])} to {self.number(ends[1])}"
            doubt = "" if self.sure[i] else "; it may be nothing at all"
            said.append(f"{self.sentence(self.items[i], float(self.values[i]))} ({reach}{doubt}).")
        return [*said, self.caveat] if self.caveat else said

    @property
    def caveat(self) -> str:
        if self.note is not None:
            return self.note
        used = SOURCE if self.spec.method != "paper" else ""
        used += f" {ESTIMATED}" if self.spec.samples else ""
        used += f" One row in {self.spec.one_in:,} was used, chosen at random." if self.spec.one_in > 1 else ""
        if not self._mostly_drawn:
            return used.strip()
        half = NORMAL * max(drawn for _, drawn in self._coefficients) * self.spec.step
        said = "Chance in what was drawn is in these intervals, and is more than the noise: up to "
        said += f"±{self.number(half).replace(' %', ' percentage points')}"
        remedy = "" if half <= SMALL * self.output.width else f"; {self._remedy}"
        return f"{used} {said}{remedy}.".strip()

    @property
    def _remedy(self) -> str:
        """What would bring chance below the noise, or nearer to it, in words. Twice as many predictions halve the
        variance of chance, or leave less of it, where a feature can then be gone through point by point.
        """
        spec, ended = self.spec, self.spec.ended
        if ended is None:
            more = "more samples" if spec.samples or self.aggregate == "unary" else "exact=True with more samples"
            return f"{more} would help"
        if ended.asked == ended.most and spec.one_in == 1:
            return f"more cannot be drawn: a row is asked about at most {ended.most:,} times"
        most, needed = ended.most * ended.each, SPARE * self._chance * ended.asked * ended.each / spec.one_in
        # with other sets, drawn Banzhaf values (in files of earlier versions) have another noise
        below = ended.whole or (needed <= most and not (self.aggregate == "banzhaf" and spec.samples))
        advised = rounded_up(min(needed, most))
        return f"most_predictions={advised:_} would bring it {'below' if below else 'nearer to'} the noise"

    # Released numbers -------------------------------------------------------------------------------------------------

    @cached_property
    def marginals(self) -> Marginals | None:
        """The released histograms that values were drawn from, to be used again; None if they came from other rows, or
        if a file was read whose marginals stand in a file of their own.
        """
        return Marginals(self.receipt, self.released) if self.spec.partitions else self.known

    @cached_property
    def _released(self) -> tuple[Floats, Noise]:
        values, noise = self.part("influences")
        return values.astype(np.float64), noise

    @cached_property
    def _blocked(self) -> Floats:
        """All sums, in whole steps: one line for everybody or the group, another one for all others."""
        values, _ = self._released
        return values[: self.spec.blocks * self.spec.lines].reshape(self.spec.blocks, self.spec.lines)

    @cached_property
    def _sums(self) -> Floats:
        """The sums of influences."""
        x = self.spec.base_weight
        lines = self._blocked[:, : len(self.items) + bool(x)]
        return lines[:, 1:] + lines[:, :1] / x if x else lines

    @property
    def details(self) -> JsonObject:
        rates = self.disparity
        return {} if rates is None else {"disparity": rates.to_frame(), "positive": rates.meaning}

    @cached_property
    def disparity(self) -> Disparity | None:
        """The rates of the group and of all others, their difference and ratio; None where these were not asked for, or
        not released (by earlier versions for Shapley and Banzhaf values, and beside given features).
        """
        spec = self.spec
        weight = spec.outcome_weight or (0 if spec.given else spec.base_weight)
        if self.quantity != "disparity" or not weight:
            return None
        model = self.receipt.request["model"]
        return Disparity(
            spec=spec,
            sums=self._blocked[:, -1 if spec.outcome_weight else 0] / weight,
            counts=self.counts,
            noise=self._released[1],
            weight=weight,
            conclusive=self.conclusive,
            model=(str(model["name"]), model["label"], PublicRange.from_json(model["output"])),
        )

    @cached_property
    def counts(self) -> Floats:
        """The number of rows of each group, public or released: everybody; or the group, and for a disparity all
        others.
        """
        spec, rows = self.spec, self.receipt.request["table"]["rows"]
        found = self._released[0][spec.blocks * spec.lines :] / (spec.count_weight or 1)
        if len(found) != spec.counts or bool(spec.counts) != bool(spec.count_weight):
            raise ValueError("the counts do not fit the request")
        if len(found) == spec.blocks:
            return found
        if rows is None or self.quantity == "group" or len(found) != spec.blocks - 1:
            raise ValueError("the counts do not fit the request")
        return np.array([float(rows)]) if not len(found) else np.array([found[0], rows - found[0]])

    @cached_property
    def _kappa(self) -> Floats:
        """The mean of the summed influences in whole steps, without what centring took off."""
        return self._sums / np.maximum(self.counts, 1.0)[:, None]

    @cached_property
    def values(self) -> Floats:
        if not self.conclusive:
            return np.zeros(len(self.items))
        return self._inside(self._middle)

    @cached_property
    def _middle(self) -> Floats:
        means = (self._kappa + self.spec.lift) * self.spec.step
        return np.asarray(means[0] - means[1] if self.spec.blocks == 2 else means[0])

    def _inside(self, numbers: Floats) -> Floats:
        return np.asarray(np.clip(numbers, *self.possible))

    @property
    def possible(self) -> tuple[float, float]:
        """No influence is larger than the range of outcomes, of a difference twice that; a plain change has no sign."""
        most = self.output.width * self.spec.blocks
        return 0.0 if self.spec.plain and self.spec.absolute else -most, most

    # Noise ------------------------------------------------------------------------------------------------------------

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        checked_level(level)
        if not self.conclusive:
            low, high = self.possible
            return np.full(len(self.items), low), np.full(len(self.items), high)
        half = np.array([self._halfwidth(*terms, level) for terms in self._coefficients])
        return self._inside(self._middle - half), self._inside(self._middle + half)

    def _halfwidth(self, coefficients: Sequence[float], drawn: float, level: float) -> float:
        """Of one influence, to first order in the noise of counts, and widened by what the second order can add."""
        noise, w = self._released[1], self.spec.count_weight
        half = combined_halfwidth([(noise, coefficients)], drawn, level)
        unsure = noise.halfwidth(level) / (w * self.counts.min()) if w else 0.0
        return float((half / (1 - min(unsure, 0.5) ** 2) + 1) * self.spec.step)

    @property
    def _coefficients(self) -> list[tuple[list[float], float]]:
        """For each influence how each noisy number moves it, and the standard deviation of what is drawn; in whole
        steps.
        """
        return [self._terms(item) for item in range(len(self.items))]

    def _terms(self, item: int) -> tuple[list[float], float]:
        spec, counts, kappa = self.spec, self.counts, self._kappa[:, item]
        each = [1 / n for n in counts]
        found = [*each, *([a / spec.base_weight for a in each] if spec.base_weight else [])]
        if spec.count_weight:
            by_count = [k / n / spec.count_weight for k, n in zip(kappa, counts, strict=True)]
            found += [sum(by_count)] if spec.one_count else by_count
        drawn = sum(self._drawn(item, block) ** 2 / counts[block] for block in range(spec.blocks))
        sampled = (self.sampling[item] / spec.step) ** 2 if self.sampling else 0.0
        return found, math.sqrt(drawn + sampled)

    @property
    def _mostly_drawn(self) -> bool:
        """Whether the Monte Carlo error of some influence is larger than the noise."""
        return self._chance > 1

    @cached_property
    def _chance(self) -> float:
        """How many times the variance of the noise the Monte Carlo error has, of the influence with most of it."""
        noise = self._released[1]
        beside = [(drawn, noise.std * math.hypot(*coefficients)) for coefficients, drawn in self._coefficients]
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
        spec, n = self.spec, self.counts[block]
        if spec.certain(spec.items[item]):
            return 0.0
        spread = spec.spread
        if spec.plain and spec.absolute:
            m = max(0.0, (self._kappa[block, item] + spec.lift + 2 * self._released[1].std / n) / spec.K)
            unseen = UNSEEN**2 * spec.heaviest / n
            m += unseen / 2 + math.sqrt(m * unseen + unseen**2 / 4)
            spread = math.sqrt(m * (1 - m)) if m < 0.5 else spread
        return float(spread * spec.K * math.sqrt(spec.heaviest))

    # Small groups -----------------------------------------------------------------------------------------------------

    @cached_property
    def needed(self) -> float:
        """How many rows a group must have so that something can be said about it at this price."""
        w, x, noise = self.spec.count_weight, self.spec.base_weight, self._released[1]
        if not w:
            return 0.0
        half = combined_halfwidth([(noise, [1.0, 1 / x] if x else [1.0])], 0.0, 0.95)
        return float(max(ENOUGH * noise.halfwidth(0.95) / w, 2 * half / self.spec.K))

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
        who = "The table" if self.group is None else f"The group ({self.group})" if small == 0 else OTHERS
        verb, found = "are" if who == OTHERS else "is", max(0.0, float(self.counts[small]))
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
        spec, rows = self.spec, self.receipt.request["table"]["rows"]
        spec.check()
        if spec.ended is not None and rows is not None and not rows <= spec.ended.each <= max(rows, ONE_BLOCK):
            raise ValueError("the end of the draws does not fit the rows")
        drawn = 0 if spec.samples is None else len(self.items)
        if len(self.sampling) != drawn or not np.isfinite([*self.interval(), self.values]).all():
            raise ValueError("the influences do not fit the features")
        if not self.title or not self.sentences() or (self.disparity is not None and not self.disparity.sentences):
            raise ValueError("no influence of ours")


def checked_top(top: int) -> int:
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise InputError(f"top is a whole number of at least 1; got {top!r}.", spent="")
    return top


def rounded_up(number: float) -> int:
    """To two digits."""
    whole = math.ceil(number)
    unit: int = 10 ** max(0, len(str(whole)) - 2)
    return -(-whole // unit) * unit
