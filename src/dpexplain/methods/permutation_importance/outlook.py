"""What permutation importance will be worth, told before it: the error to expect, and the interval to be printed.

They differ much. An interval holds for every table, so it contains all that the limit may have cut off, and for that a
noisy number is paid; the error is that of the values themselves. It depends on how much losses change, which rows and
model decide. So the model is tried on a few small likely tables (`PublicRandom.likely_rows`; what happened is drawn
with the probability that the model gives, and a number is what the model says), and for each of them the error follows
without any draw of noise: the chance of every limit to be chosen, what it cuts off there, and the law of the noise.
Told is the middle of these tables. With marginals that are handed over, rows are drawn from those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from dpexplain.core.budget import Cost
from dpexplain.core.noise import Law, Noise
from dpexplain.core.sensitivity import Assignment
from dpexplain.data.assignment import TAGS
from dpexplain.data.dealing import Dealt
from dpexplain.data.donors import by_feature, by_group, drawn
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.maths.tails import Term, combined_halfwidth
from dpexplain.methods import histogram as histograms
from dpexplain.methods.permutation_importance.release import resolve
from dpexplain.methods.permutation_importance.request import PermutationImportance
from dpexplain.methods.permutation_importance.result import allowance, gap_halfwidth
from dpexplain.methods.permutation_importance.spec import (
    SQUARE_LEVELS,
    Floats,
    Integers,
    Norms,
    Spec,
    changes,
    forecast,
    likely_limit,
    limit_selection,
    noise_at,
    norms_of,
    shrunk,
)
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.targets import with_likely_target

TYPICAL = 0.1  # of the largest possible change of a group: what a shrunk one is taken to lose, and all to change by
TABLES, ROWS, DEALINGS = 7, 512, 2  # likely tables, their rows at most, and how often these are dealt to groups
MAX_PREDICTIONS, MAX_DRAWS = 2**17, 4  # in all, and for each row
HARDLY_SHARE = 0.5  # of the noise under a usual limit: an error below it says that public rows show hardly any change
NODES = np.array([-1.8, -0.9, 0.0, 0.9, 1.8])  # of a normal number, with these weights
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()
WIDER = "it has to hold for every table, and includes what the limit may have cut off"
CLASSES = "The error leaves out what the limit will cut off."
HARDLY = (
    "On public rows predictions hardly depend on these columns. Where the rows of the table lie elsewhere, the error "
    "may be many times this."
)
NO_MODEL = "The error leaves out what the limit will cut off: give the model, and it is tried on public rows."


def outlook(request: PermutationImportance, setting: Setting, cost: Cost) -> Outlook:
    """The error to expect, and how wide intervals will be, in a table of about this many rows.

    Assumed for the intervals, because it is known only afterwards: a limit of one whole loss (of a whole group, where
    it is chosen for intervals), or `clip`; that shrunk groups lose 10 % of the largest possible change, and that all
    change by that much. What a noisy number of rows adds is a share of the importance itself, and left out.
    """
    spec = resolve(request, setting, cost)
    parts, losses = forecast(spec, setting.neighbours, cost), spec.loss.range
    noise = parts["errors" if spec.paper else "changes"]
    unit, law, points = losses.width / (losses.levels * setting.rows), noise.law.value, noise.size
    if spec.paper:  # differences from the base, which is as noisy as an error
        error, band = gap_halfwidth(noise, LEVEL), 2 * noise.band(LEVEL)
        return Outlook(law, points - 1, math.sqrt(2) * noise.std * unit, error * unit, band * unit)
    groups = spec.groups(setting.rows)
    cut = min(spec.shrunk, groups // 2) * TYPICAL * spec.cap
    shown: list[Term] = [(noise, [1.0])]
    if spec.limited:
        shown.append((parts["lost"], [1.0]))
        cut += parts["lost"].std / 2  # what noise shows of nothing, on average
    hidden = allowance(LEVEL) * parts["squares"].std / SQUARE_LEVELS * spec.square_unit(likely_limit(spec))
    chance = math.sqrt(groups * (TYPICAL * spec.cap) ** 2 + hidden) + math.sqrt(spec.cap * cut)
    known = 0.0 if spec.histograms is None else max(spec.histograms.errors(LEVEL, unsure=bool(spec.count_weight)))
    each = (1 + LEVEL) / 2 if spec.count_weight or known else LEVEL
    wide = [combined_halfwidth(shown, chance, level) + cut for level in (each, 1 - (1 - each) / points)]
    interval, band = (min(half * unit + known * losses.width, losses.width) for half in wide)
    tried = setting.model is not None and not setting.model.every_class
    error = expected_error(spec, setting, cost) if tried else noise.halfwidth(LEVEL)
    note = ""
    if spec.limited:
        note = NO_MODEL if setting.model is None else CLASSES if not tried else ""
        if tried and error < HARDLY_SHARE * noise.halfwidth(LEVEL):
            note = HARDLY
    return Outlook(
        law=law,
        points=points,
        std=noise.std * unit,
        error=min(error * unit, interval),
        band=band,
        note=note,
        interval=interval,
        wider=WIDER,
    )


def expected_error(spec: Spec, setting: Setting, cost: Cost) -> float:
    """What 95 % of released sums will be within, of those without limit, noise and chance: of likely tables, the middle
    one. In steps of a quantised loss.
    """
    tried = replace(spec, draws=min(spec.draws, MAX_DRAWS))
    size = min(ROWS, MAX_PREDICTIONS // (TABLES * DEALINGS * tried.draws * len(spec.features)))
    size = max(size, 2 * spec.group)
    key = ("importance", size, tried.group, tried.most, tried.draws)
    if key not in setting.tried:  # a plan asks at many prices
        setting.tried[key] = _tried(tried, setting, size)
    return float(np.median([_error(spec, setting, cost, dealt, size) for dealt in setting.tried[key]]))


def _tried(spec: Spec, setting: Setting, size: int) -> list[list[Integers]]:
    """For each likely table the changes of its groups, for some dealings. All tables are predicted at once."""
    assert setting.model is not None
    predictor = setting.model.checked(setting.domain, rows=TABLES * size, exact=True)
    likely = [_likely(spec, setting, size, PublicRandom(seed)) for seed in range(TABLES)]
    columns = {name: np.concatenate([rows[name] for rows in likely]) for name in setting.domain}
    public, rows = PublicRandom(TABLES), Rows(setting.domain, columns, TABLES * size)
    draw = public.generator
    rows = with_likely_target(rows, spec.target, spec.target_values, predictor, setting.output, draw)
    table, tables = np.repeat(np.arange(TABLES), size), np.arange(TABLES)
    dealt = []
    for _ in range(DEALINGS):
        if setting.marginals is not None:
            others = histograms.references(spec.features, setting.marginals, setting.domain)
            moved, owner = changes(by_feature(rows, others, spec.draws, draw.random), predictor, spec)[0], table
        else:
            groups = spec.groups(size)
            by_place = spec.assignment is Assignment.POSITION
            places = [draw.permutation(size) if by_place else draw.integers(TAGS // 2**8, size=size) for _ in tables]
            place = np.concatenate(places)
            tags = table * groups + place % groups + place // groups * (TABLES * groups)  # no group has rows of two
            owner = np.unique(tags % (TABLES * groups)) // groups
            dealt_rows = Dealt.of(rows, tags, TABLES * groups, draw.random(rows.size))
            moved = changes(by_group(dealt_rows, spec.features, spec.draws, spec.most), predictor, spec)[0]
        dealt.append([moved[owner == t] for t in tables])
    return [list(lines) for lines in zip(*dealt, strict=True)]


def _likely(spec: Spec, setting: Setting, size: int, public: PublicRandom) -> Rows:
    """Public rows; with marginals, each column drawn from its own."""
    rows = public.likely_rows(setting.domain, size)
    if setting.marginals is None:
        return rows
    known = histograms.references(spec.features, setting.marginals, setting.domain)
    values = {name: next(drawn(size, reference, 1, public.generator.random)) for name, reference in known.items()}
    return Rows(setting.domain, {**rows.columns, **values}, size)


@dataclass(frozen=True)
class _Outcome:
    """What happens under one limit: its probability, what is cut off each feature's sum, its noise and its chance."""

    probability: float
    cut: Floats
    noise: Noise
    chance: Floats

    def within(self, half: float) -> float:
        """The probability that an error is at most so large, over features."""
        if self.noise.law is Law.LAPLACE:
            places, scale = self.cut + NODES[:, None] * self.chance, float(self.noise.scale)
            return float((WEIGHTS @ (_laplace((half - places) / scale) - _laplace((-half - places) / scale))).mean())
        chance = np.hypot(self.chance, self.noise.std)
        return float((ndtr((half - self.cut) / chance) - ndtr((-half - self.cut) / chance)).mean())


def _laplace(x: Floats) -> Floats:
    tail = np.exp(-np.abs(x)) / 2
    return np.where(x < 0, tail, 1 - tail)


def _error(spec: Spec, setting: Setting, cost: Cost, dealt: list[Integers], size: int) -> float:
    """The 95 % error in a table of `setting.rows` rows of which the dealt ones are a likely part."""
    times = setting.rows / size
    norms = [norms_of(groups, spec.norm) for groups in dealt]
    whole = np.mean([groups.sum(axis=0) for groups in dealt], axis=0)
    outcomes = []
    for limit, probability in zip(spec.limits, _choices(spec, setting, cost, norms, times), strict=True):
        if probability < 1e-4:
            continue
        sums = np.array([shrunk(g, n, limit, spec.norm).sum(axis=0) for g, n in zip(dealt, norms, strict=True)])
        noise = noise_at(spec, setting.neighbours, cost, limit)
        chance = sums.std(axis=0, ddof=1) * math.sqrt(times) + 1e-9
        outcomes.append(_Outcome(float(probability), (sums.mean(axis=0) - whole) * times, noise, chance))
    total = sum(outcome.probability for outcome in outcomes)

    def missing(half: float) -> float:
        return sum(o.probability * o.within(half) for o in outcomes) / total - LEVEL

    most = 10.0 * len(spec.features) * spec.cap * max(setting.rows, 1)
    error = float(brentq(missing, 0.0, most, rtol=1e-4)) if missing(most) > 0 else most
    return error / spec.company(setting.rows)


def _choices(spec: Spec, setting: Setting, cost: Cost, norms: list[Norms], times: float) -> Floats:
    """The probability of each limit to be chosen."""
    if len(spec.limits) == 1:
        return np.ones(1)
    above = np.array([times * np.mean([(n > limit).sum() for n in norms]) for limit in spec.limits])
    scores = spec.scores(above, spec.groups(setting.rows))
    odds = np.exp((scores - scores.max()) / float(limit_selection(spec, setting.neighbours, cost).scale))
    chosen: Floats = odds / odds.sum()
    return chosen
