"""Influences of inputs on outcomes, from released sums: for everybody, a group, or what sets a group apart.

A sum of influences is one released number, or the difference of two: the outcomes as they are and with inputs replaced.
Divided by the number of rows of the group it is a mean. With s the standard deviation of the noise of one number,
1 / x the part of the base's noise, kappa the mean in whole steps and w the weight of the count,

    variance of the sum less kappa times the count = s^2 (1 + 1 / x^2 + kappa^2 / w^2) + Monte Carlo error

Where a performance has released outcomes and sizes of both groups before, these come from it: `shared.py`.
"""

from __future__ import annotations

import itertools
import json
import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import domain_from_json
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import PublicRange
from dpexplain.core.noise import Noise, checked_level
from dpexplain.errors import InputError
from dpexplain.maths.tails import Term, combined_halfwidth
from dpexplain.methods.histogram import references
from dpexplain.methods.influence.disparity import (
    Disparity,
    SharedDisparity,
    SummedDisparity,
    by_counts,
    halfwidth,
    unsure_counts,
)
from dpexplain.methods.influence.shared import KnownRates, of_spec
from dpexplain.methods.influence.sharp import SharpDisparity, SharpInfluences, prior, suits
from dpexplain.methods.influence.spec import Asked, Spec
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.result import Floats, Result, cut_to, from_json
from dpexplain.methods.sharpened import SharpenedResult
from dpexplain.methods.sharpening import Ask, Sharpening
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd

    from dpexplain.methods.performance.result import Performance

AGGREGATES = {"unary": "", "shapley": " (Shapley values)", "banzhaf": " (Banzhaf values)"}
ENOUGH = 4  # times the 95 % noise of a count: a group that is smaller is too small to be spoken of
NORMAL = 1.96
SPARE = 2  # times the predictions by which chance would be as large as the noise: what is advised
SMALL = 0.005  # of the range of outcomes: a half-width of chance that is not worth many more predictions
SOURCE = "Values came from released histograms: the noise and the width of their cells are not in these intervals."
SHARED = (
    " Rates and sizes of both groups are those of the performance of entry {}, whose noise is in these intervals; rows "
    "on which the model fails count as half a positive here, and by the middle of the range there: that is not."
)
OTHERS = "All others than the group are"
ONE_BLOCK = 2**12  # predictions that a question takes at least, in any version
ESTIMATED = "What the drawn orders or sets add is estimated on synthetic rows, and may be more."
UNSEEN = 2.0  # standard deviations by which a share may be larger than what was drawn says


@dataclass(frozen=True)
class Influence(Result):
    """Influences of features, or of sets of them, in units of the outcome; of a class 0.2 means 20 of 100."""

    picture: ClassVar[str] = "dpexplain.render.influence:plot_influence"
    bars_shown: ClassVar[int] = 25  # in its picture; the files have all of them

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
    def possible(self) -> tuple[float, float]:
        """No influence is larger than the range of outcomes, of a difference twice that; a plain change has no sign."""
        most = self.output.width * (2 if self.quantity == "disparity" else 1)
        return 0.0 if self.asked.plain and self.asked.absolute else -most, most

    @property
    def names(self) -> list[str]:
        """What the items are called in a picture."""
        return [self.receipt.called(item) for item in self.items]

    @property
    @abstractmethod
    def unit_words(self) -> str:
        """What the numbers are, in words."""

    @abstractmethod
    def sentences(self, top: int = 5) -> list[str]:
        """The largest influences in plain words, the largest first."""

    @property
    def disparity(self) -> Disparity | None:
        """How outcomes differ between a group and all others, where that was asked."""
        return None

    @property
    def findings(self) -> list[str]:
        return [*self.lead, *self.sentences()]

    @property
    def picture_size(self) -> tuple[float, float]:
        return 7.36, 2.0 + 0.26 * min(self.bars_shown, len(self.items)) + (1.5 if self.lead else 0)

    @cached_property
    def order(self) -> list[int]:
        """The items by the size of their influence, the largest first; of equal ones, the earlier one."""
        return [int(i) for i in np.argsort(-np.abs(self.values), kind="stable")]

    @cached_property
    def sure(self) -> NDArray[np.bool_]:
        """For each item, whether its 95 % interval excludes zero; otherwise chance could explain its influence."""
        low, high = self.interval()
        return (low > 0) | (high < 0)

    def to_frame(self) -> pd.DataFrame:
        """One line for each item, in their public order."""
        import pandas as pd

        low, high = self.interval()
        columns = {"item": self.items, "influence": self.values, "low": low, "high": high, **self.columns_beside()}
        return pd.DataFrame({**columns, "determined": self.determined()})

    def columns_beside(self) -> dict[str, Floats]:
        """More columns of `to_frame()`: the released values, where others are shown."""
        return {}


@dataclass(frozen=True)
class TableInfluence(Influence, SharpenedResult):
    """Influences over a table. Where the release has a prior (`sharpening`), `values` and `interval` are what is likely
    given all that was released and what the public model says about synthetic rows; `raw` and `proven_interval` are
    those of the release alone. Intervals cover the mean over the (cleaned) rows of the expected influence, values being
    drawn from the *released* histograms: noise, and chance in draws, rows and orders (`caveat` says what they leave
    out). Where a released number of rows is too small, values are zero and intervals the whole range (`conclusive`).
    """

    sampling: tuple[float, ...] = ()  # standard deviation that drawn orders or sets add to each value; public
    known: Marginals | None = field(default=None, compare=False, repr=False)  # what was handed over, not in files
    performance: Performance | None = field(default=None, compare=False, repr=False)  # whose rates are shared
    sharpening: Sharpening | None = None

    kind: ClassVar[str] = "influence"
    spec_type: ClassVar[type[Spec]] = Spec

    def __post_init__(self) -> None:
        self.promise_with([] if self.sharpening is None else self.sharpening.paid_before)

    # What was asked ---------------------------------------------------------------------------------------------------

    @property
    def asked(self) -> Spec:
        spec: Spec = self.spec
        return spec

    @property
    def group(self) -> str | None:
        """Who is spoken of, in words; None for everybody."""
        return None if self.spec.group is None else self.spec.group.describe(self.receipt)

    @property
    def title(self) -> str:
        model = self.receipt.request["model"]["name"]
        who = {
            "average": "Influence on the outcomes of everybody",
            "group": f"Influence on the outcomes where {self.group}",
            "disparity": f"Influence on how outcomes differ where {self.group}",
        }[self.quantity]
        return f"{who}, model {model}{AGGREGATES[self.aggregate]}"

    @property
    def unit_words(self) -> str:
        if self.quantity == "average":
            return "share of rows whose outcome changes" if self.is_class else "mean change of the score"
        rate = self.spec.outcome.rate
        return f"part of the {rate}" if self.quantity == "group" else f"part of the difference in the {rate}"

    def _sentence(self, item: str, value: float) -> str:
        """One influence in plain words, without its interval."""
        outcome, given = self.spec.outcome, self.spec.given
        number = outcome.written(abs(value))
        item = self.receipt.called(item)
        who = f"{item} (beside {' + '.join(map(self.receipt.called, given))})" if given else item
        if self.quantity == "average":
            if not self.spec.plain:
                whole = "(of all outcomes)" if self.is_class else "(of the score)"
                return f"{who} has a part of {outcome.written(value)} in what replaced inputs change {whole}"
            if self.is_class:
                return f"For {number} of the rows the outcome changes when {item} is replaced by other people's values"
            return f"The score changes by {number} on average when {item} is replaced by other people's values"
        verb, points = "raises" if value >= 0 else "lowers", number.replace(" %", " percentage points")
        if self.quantity == "group":
            return f"Where {self.group}, {who} {verb} the {outcome.rate} by {points}"
        return f"{who} {verb} the {outcome.rate} where {self.group}, compared with all others, by {points}"

    def sentences(self, top: int = 5) -> list[str]:
        top = checked_top(top)
        if self.note is not None:
            return [self.note]
        (low, high), said = self.interval(), []
        for i in self.order[:top]:
            lowers = self.quantity != "average" and self.values[i] < 0  # how far, without a sign
            reach = self.spec.outcome.interval(*((-high[i], -low[i]) if lowers else (low[i], high[i])))
            doubt = "" if self.sure[i] else "; it may be nothing at all"
            said.append(f"{self._sentence(self.items[i], float(self.values[i]))} ({reach}{doubt}).")
        return [*said, self.caveat] if self.caveat else said

    @property
    def interval_about(self) -> str:
        by_noise = not self.conclusive or self._chance <= 0
        return "privacy noise" if by_noise else "privacy noise, and chance in what was drawn"

    @property
    def caveat(self) -> str:
        if self.note is not None:
            return self.note
        used = SOURCE if self.spec.method != "paper" else ""
        used += f" {ESTIMATED}" if self.spec.samples else ""
        used += "" if self.performance is None else SHARED.format(self.performance.receipt.entry.sequence)
        used += f" One row in {self.spec.one_in:,} was used, chosen at random." if self.spec.one_in > 1 else ""
        if self._chance <= 1:
            return used.strip()
        half = NORMAL * max(drawn for _, drawn in self._coefficients) * self.spec.step
        said = "Chance in what was drawn is in these intervals, and is more than the noise: up to "
        said += f"±{self.spec.outcome.written(half).replace(' %', ' percentage points')}"
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
        """The released histograms that values were drawn from, for reuse; None if there were none, or not at hand."""
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

    @property
    def lead(self) -> list[str]:
        return [] if self.disparity is None else self.disparity.sentences

    def more_tables(self) -> dict[str, pd.DataFrame]:
        return {} if self.disparity is None else {"disparity": self.disparity.to_frame()}

    def more_facts(self) -> JsonObject:
        return {} if self.disparity is None else {"positive": self.disparity.meaning}

    @cached_property
    def disparity(self) -> Disparity | None:
        """The rates of the group and of all others; None where not asked for, or (before 0.2) not released."""
        found = self.released_disparity
        if found is None or self._sharp is None:
            return found
        return SharpDisparity(found.spec, found.model, found.group, self._sharp, found)

    @cached_property
    def released_disparity(self) -> Disparity | None:
        """The same by the release alone."""
        spec, model = self.spec, self.receipt.request["model"]
        about = (str(model["name"]), model["label"], PublicRange.from_json(model["output"]))
        group = self.group or ""
        if self._rates is not None:
            return SharedDisparity(spec, about, group, self._rates.tables)
        weight = spec.outcome_weight or (0 if spec.given else spec.base_weight)
        if self.quantity != "disparity" or not weight:
            return None
        return SummedDisparity(
            spec,
            about,
            group,
            sums=self._blocked[:, -1 if spec.outcome_weight else 0] / weight,
            counts=self.counts,
            noise=self._released[1],
            weight=weight,
            enough=self.conclusive,
        )

    @cached_property
    def _rates(self) -> KnownRates | None:
        """What a performance has released about both groups, where this was computed from it."""
        return of_spec(self.performance, self.spec)

    @property
    def relies_on(self) -> list[Result]:
        return [] if self.performance is None else [self.performance]

    @cached_property
    def counts(self) -> Floats:
        """The number of rows, public or released: of everybody; or of the group, and for a disparity of all others."""
        spec, rows = self.spec, self.receipt.rows
        if self._rates is not None:
            return self._rates.counts
        released = self._released[0][spec.blocks * spec.lines :] / (spec.count_weight or 1)
        rest = spec.blocks - len(released)  # groups whose size follows from that of the table
        if len(released) != spec.counts or bool(spec.counts) != bool(spec.count_weight) or rest not in (0, 1):
            raise ValueError("the counts do not fit the request")
        if rest and (rows is None or self.quantity == "group"):
            raise ValueError("the counts do not fit the request")
        return np.append(released, rows - released.sum()) if rest else released

    @cached_property
    def _kappa(self) -> Floats:
        """The mean of the summed influences in whole steps, without what centring took off."""
        x = self.spec.base_weight
        lines = self._blocked[:, : len(self.items) + bool(x)]
        sums = lines[:, 1:] + lines[:, :1] / x if x else lines
        if self._rates is not None:
            sums = lines + self.spec.K * (self._rates.positives - self._rates.counts / 2)[:, None]
        return np.asarray(sums / np.maximum(self.counts, 1.0)[:, None])

    @cached_property
    def values(self) -> Floats:
        if self._sharp is None:
            return self.raw
        return np.clip(self._sharp.values, *self.possible)

    @cached_property
    def raw(self) -> Floats:
        if not self.conclusive:
            return np.zeros(len(self.items))
        return np.clip(self._middle, *self.possible)

    @cached_property
    def _middle(self) -> Floats:
        means = (self._kappa + self.spec.lift) * self.spec.step
        return np.asarray(means[0] - means[1] if self.spec.blocks == 2 else means[0])

    # Noise ------------------------------------------------------------------------------------------------------------

    def columns_beside(self) -> dict[str, Floats]:
        if self._sharp is None:
            return {}
        low, high = self.proven_interval()
        return {"released": self.raw, "proven low": low, "proven high": high}

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        if self._sharp is None:
            return self.proven_interval(level)
        likely = self._sharp.interval(level)
        return self.wide_enough(cut_to(*likely, self.possible), self.proven_interval(level), self._sharp.far)

    def determined(self, level: float = 0.95) -> NDArray[np.bool_]:
        return self.leaves_out(*self.proven_interval(level))

    def proven_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) by the noise of the release and chance alone."""
        checked_level(level)
        if not self.conclusive:
            low, high = self.possible
            return np.full(len(self.items), low), np.full(len(self.items), high)
        spec, n = self.spec, self.counts
        unsure = unsure_counts(spec, n, self._released[1], level) if self._rates is None else self._rates.unsure(level)
        terms = [(self._terms(item), drawn) for item, (_, drawn) in enumerate(self._coefficients)]
        half = np.array([halfwidth(spec, moved, drawn, unsure, level) for moved, drawn in terms])
        return cut_to(self._middle - half, self._middle + half, self.possible)

    def _terms(self, item: int) -> list[Term]:
        """What moves an influence: the noise of this release, and that of a performance whose rates are shared."""
        own, rates, half = (self._released[1], self._coefficients[item][0]), self._rates, self.spec.K / 2
        if rates is None:
            return [own]
        each = zip(self.counts, self._kappa[:, item], strict=True)
        return [own, *rates.terms(*(((half - k) / n, -(half + k) / n) for n, k in each))]

    @cached_property
    def _coefficients(self) -> list[tuple[list[float], float]]:
        """In whole steps, how each noisy number moves each influence, and the standard deviation of what is drawn."""
        spec, each, found = self.spec, (1 / self.counts).tolist(), []
        base = [a / spec.base_weight for a in each] if spec.base_weight else []
        for item in range(len(self.items)):
            moved = [*each, *base, *by_counts(spec, self.counts, self._kappa[:, item])]
            drawn = sum(self._drawn(item, block) ** 2 / n for block, n in enumerate(self.counts))
            sampled = (self.sampling[item] / spec.step) ** 2 if self.sampling else 0.0
            found.append((moved, math.sqrt(drawn + sampled)))
        return found

    @cached_property
    def _chance(self) -> float:
        """How many times the variance of the noise the Monte Carlo error has, of the influence with most of it."""
        sizes = [
            math.hypot(*(noise.std * float(np.linalg.norm(factors)) for noise, factors in self._terms(item)))
            for item in range(len(self.items))
        ]
        beside = [(drawn, size) for (_, drawn), size in zip(self._coefficients, sizes, strict=True)]
        ratio = max(drawn / std if std else math.inf if drawn else 0.0 for drawn, std in beside)
        return ratio * ratio

    def _drawn(self, item: int, block: int) -> float:
        """At most the standard deviation of one row's influence over what is drawn, in whole steps ("What chance is
        bounded by" in docs/methods/influence.md). For the average numbers in {0..1} with mean m vary by sqrt(m (1 - m))
        at most; m is taken where it is largest within what noise and chance may have hidden.
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

    # Sharpening -------------------------------------------------------------------------------------------------------

    @cached_property
    def _sharp(self) -> SharpInfluences | None:
        known, spec = self.sharpening, self.spec
        if known is None:
            return None
        if known.part is not None or known.prior.size != spec.blocks * spec.lines or not suits(spec):
            raise ValueError("the prior is that of other numbers")
        if not self.conclusive:
            return None
        chance = self._chance_of_rows / self.counts[:, None]
        return SharpInfluences(spec, known.prior, self._blocked, self.counts, self._released[1], chance, self.sampling)

    @property
    def _chance_of_rows(self) -> Floats:
        """[block, line]: at most the variance by what was drawn for one row, in whole steps."""
        spec, first = self.spec, int(bool(self.spec.base_weight))
        chance = np.zeros((spec.blocks, spec.lines))
        for block, item in itertools.product(range(spec.blocks), range(len(self.items))):
            chance[block, first + item] = self._drawn(item, block) ** 2
        return chance

    @property
    def chance_of_sums(self) -> Floats:
        """At most the variance of each released sum by what was drawn, in parts of the range."""
        rows = np.maximum(self.counts, 0.0)[:, None]
        return np.asarray((self._chance_of_rows * rows).ravel() / self.spec.K**2)

    @property
    def contradicts(self) -> bool:
        return self._sharp is not None and self._sharp.contradicts

    @property
    def rows_counted(self) -> float:
        return float(self.receipt.rows or self.counts.sum())

    @property
    def _needed(self) -> list[str]:
        group = self.spec.group
        return [*self.spec.names, *([] if group is None else group.columns)]

    @property
    def _ask(self) -> Ask:
        if self.marginals is None or self.receipt.domain is None:
            raise ValueError("the marginals of these influences are missing")
        known = references(self.spec.names, self.marginals, domain_from_json(self.receipt.domain))
        return partial(prior, spec=self.spec, known=known)

    @property
    def earlier_marginals(self) -> str | None:
        marginals: str | None = self.spec.marginals
        return marginals

    # Small groups -----------------------------------------------------------------------------------------------------

    @cached_property
    def needed(self) -> float:
        """How many rows a group must have so that something can be said about it at this cost."""
        w, x, noise = self.spec.count_weight, self.spec.base_weight, self._released[1]
        if self._rates is not None:
            return float(max(ENOUGH * self._rates.reach(block, 0.95) for block in range(2)))
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
        who = "The table is" if self.group is None else f"The group ({self.group}) is" if small == 0 else OTHERS
        rows = max(0.0, float(self.counts[small]))
        said = f"{who} too small for an answer with this epsilon: about {rows:,.0f} rows were counted, "
        said += f"and {math.ceil(self.needed):,} are needed"
        if rows < self.needed / 100:
            return f"{said}."
        if self._rates is not None:
            return f"{said}, or a performance with a larger epsilon."
        price = self.receipt.budget.epsilon_of(self.receipt.cost) * self.needed / rows
        return f"{said}, or an epsilon of about {price:.2g}."

    # Files ------------------------------------------------------------------------------------------------------------

    def view(self) -> JsonObject:
        shared = {} if self.performance is None else {"performance": json.loads(self.performance.to_json())}
        return {"sampling": list(self.sampling), **shared, **self.prior_view}

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> TableInfluence:
        if set(view) - {"performance", "sharpening"} != {"sampling"}:
            raise ValueError("no view of an influence")
        if not all(isinstance(s, float) and s >= 0 for s in view["sampling"]):
            raise ValueError("no view of an influence")
        performance: Any = from_json(json.dumps(view["performance"])) if "performance" in view else None
        sharpening = Sharpening.from_json(view.get("sharpening"))
        found = cls(receipt, released, tuple(view["sampling"]), performance=performance, sharpening=sharpening)
        found.check()
        return found

    def check(self) -> None:
        """What can be read can be shown: an error here, and not later, for a file that was tampered with."""
        spec, rows = self.spec, self.receipt.rows
        spec.check()
        if spec.ended is not None and rows is not None and not rows <= spec.ended.each <= max(rows, ONE_BLOCK):
            raise ValueError("the end of the draws does not fit the rows")
        drawn = 0 if spec.samples is None else len(self.items)
        ends = [*self.interval(), *self.proven_interval(), self.values]
        if len(self.sampling) != drawn or not np.isfinite(ends).all():
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
