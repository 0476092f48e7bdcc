"""Plain interaction strength of each part: Friedman's H^2 (Friedman and Popescu 2008).

All partial dependences are taken over, and evaluated at, at most `points` rows of the part, and centred:

    pairwise   H^2 = sum (PD_jk - PD_j - PD_k)^2 / sum PD_jk^2
    total      H^2 = sum (f - PD_j - PD_-j)^2 / sum f^2

Zero for a model that is additive in j and k (or in j and the rest): predictions are rounded to levels, so a deviation
that rounding alone can make counts as none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dpexplain.data.dealing import Dealt
from dpexplain.methods.plain.grouped import Floats, Levels

ROUNDING = 4  # levels: three rounded means and their centres are off by half a level each, three levels at most


def pairwise_interaction(dealt: Dealt, levels: Levels, pairs: Sequence[tuple[str, str]], points: int) -> Floats:
    """[part, pair]; NaN for a part without rows. `points`^2 predictions for each part and each feature or pair."""
    features = list(dict.fromkeys(name for pair in pairs for name in pair))
    views = [*((name,) for name in features), *pairs]

    def scores(effects: Floats) -> Floats:
        by_view = {view: effects[i] for i, view in enumerate(views)}
        return np.array([_h_squared(by_view[j, k], by_view[j,], by_view[k,]) for j, k in pairs])

    return _each_part(dealt, levels, views, False, points, len(pairs), scores)


def total_interaction(dealt: Dealt, levels: Levels, features: Sequence[str], points: int) -> Floats:
    """[part, feature]; NaN for a part without rows. 2 `points`^2 predictions for each part and feature."""
    everything = levels.predictor.features
    views = [*((name,) for name in features), *(tuple(n for n in everything if n != name) for name in features)]

    def scores(effects: Floats) -> Floats:
        own, rest, plain = effects[: len(features)], effects[len(features) : -1], effects[-1]
        return np.array([_h_squared(plain, own[i], rest[i]) for i in range(len(features))])

    return _each_part(dealt, levels, views, True, points, len(features), scores)


def _each_part(
    dealt: Dealt,
    levels: Levels,
    views: Sequence[Sequence[str]],
    plain: bool,
    points: int,
    size: int,
    scores: Callable[[Floats], Floats],
) -> Floats:
    """[part, score] from the centred effects [view, point] of each part; `plain` adds the predictions themselves."""
    scored = np.full((dealt.size, size), np.nan)
    counts = np.minimum(dealt.sizes, points)
    filled, order = np.flatnonzero(counts), dealt.shuffled()
    if not len(filled):
        return scored
    at = [order[dealt.starts[part] : dealt.starts[part] + counts[part]] for part in filled]
    base = dealt.rows.take(np.concatenate([np.tile(index, len(index)) for index in at]))
    other = dealt.rows.take(np.concatenate([np.repeat(index, len(index)) for index in at]))
    answers = levels.at(base, [{name: other[name] for name in view} for view in views])
    # sums over the rows of a part, for each view and each of its points; parts one after the other
    each = np.repeat(counts[filled], counts[filled])
    sums = np.add.reduceat(answers, np.concatenate([[0], np.cumsum(each)[:-1]]), axis=1)
    if plain:
        sums = np.vstack([sums, levels.at(dealt.rows.take(np.concatenate(at)), [{}])[0] * each])
    for part, effects in zip(filled, np.split(sums / each, np.cumsum(counts[filled])[:-1], axis=1), strict=True):
        scored[part] = scores(effects)
    return scored


def _h_squared(joint: Floats, one: Floats, other: Floats) -> float:
    """H^2 from effects at the same points, in levels."""
    joint, one, other = (effect - effect.mean() for effect in (joint, one, other))
    deviation, spread = joint - one - other, float((joint**2).sum())
    return 0.0 if spread == 0 or float(abs(deviation).max()) <= ROUNDING else float((deviation**2).sum()) / spread
