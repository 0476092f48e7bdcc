"""The spec of a ranking by votes: what a part of the rows adds to which sums, and how far a unit moves them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject
from dpexplain.core.mechanisms import best, selection
from dpexplain.core.noise import Noise
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Neighbours, ScoreRange, Sensitivity
from dpexplain.maths.coded import Coded
from dpexplain.methods.parts import Dealing
from dpexplain.methods.plain.grouped import Floats

Integers = NDArray[np.int64]

UNIT = 2**11  # of one point: even, so that half points are whole; large, so that the cube mechanism is at hand
SELECTION_SHARE = Fraction(1, 2)  # of the price of the best k: to choose them; the rest tells their points


@dataclass(frozen=True)
class Spec(Coded):
    """The request made concrete: all that fixes the statistic and its noise, public and hashed into the ledger."""

    items: tuple[str, ...]
    parts: Dealing
    k: int | None  # None: all items
    mechanism: str | None
    ranker: JsonObject  # its name, version and title, and what else identifies it
    unit: int = UNIT
    published: bool = False  # the paper's bound on one ballot

    def to_json(self) -> JsonObject:
        """What came later is written only where it is not the default."""
        said = super().to_json()
        if not self.published:
            del said["published"]
        return said

    @property
    def most(self) -> int:
        """The points that the best item of a ballot gets."""
        return len(self.items) - 1

    @property
    def released(self) -> int:
        """How many items points are released of."""
        return len(self.items) if self.k is None else self.k

    def shares(self, cost: Cost) -> tuple[Cost, Cost]:
        """What is paid for the choice of the best k, and for the points."""
        return split(cost, Fraction(0) if self.k is None else SELECTION_SHARE)


def statistic(scores: Floats) -> Integers:
    """The sums that are released, from scores [part, item]."""
    sums: Integers = ballots_of(scores).sum(axis=0)
    return sums


def ballots_of(scores: Floats) -> Integers:
    """[part, item] in units of points, from scores [part, item]: higher is better, equal ones share their points.

    A part with a score that is no finite number fails: all its items get the mean.
    """
    from scipy.stats import rankdata

    failed = np.logical_not(np.isfinite(scores).all(axis=1, keepdims=True))
    places = rankdata(np.where(failed, 0.0, scores), axis=1)  # from 1; of equal ones the mean, a multiple of one half
    points: Integers = np.rint((places - 1) * UNIT).astype(np.int64)
    return points


def ballot_bounds(items: int, released: int) -> tuple[int, int, int]:
    """How far one ballot can move `released` of its `items` points: L1, squared L2 and L-inf, in points.

    Proof. Let d be the difference of two ballots, and of its entries take any k: p where the new points are higher,
    k - p where they are lower. The new ballot gives the p at most the highest points and the others at least the lowest
    ones, the old ballot the other way round, so with g(p) = sum_{j<p} (M-1-2j) = p (M-p) the sum of these |d_i| is at
    most g(p) + g(k-p), and g is concave: at most g(floor(k/2)) + g(ceil(k/2)). That is the sum of the k first entries
    of r = (M-1, M-1, M-3, M-3, ...), for every k: the sorted |d| is weakly majorised by r. Hence the L1 norm and, the
    square being convex and increasing, the squared L2 norm of the released entries of d are at most those of the k
    first entries of r; a reversed ballot attains them. A ballot on which items share points (all of them, on a failed
    one) is a mean of ballots that do not, and norms are convex: it is never further away.
    """
    farthest = sorted((abs(items - 1 - 2 * j) for j in range(items)), reverse=True)[:released]
    return sum(farthest), sum(move * move for move in farthest), items - 1


def sensitivity(spec: Spec, neighbours: Neighbours) -> Sensitivity:
    """The sensitivity of the released sums. Norms obey the triangle inequality: c ballots move them c times as far.

    The published bound, ceil(M^2 / 2) + M in L1, is larger than ours and thus a bound too.
    """
    l1, l2_squared, linf = ballot_bounds(len(spec.items), spec.released)
    if spec.published:
        l1 = -(-(len(spec.items) ** 2) // 2) + len(spec.items)
    c = UNIT * spec.parts.assignment.changed_parts(neighbours)
    return Sensitivity(neighbours, c * l1, c * c * l2_squared, c * linf)


def score_range(spec: Spec, neighbours: Neighbours) -> ScoreRange:
    """One ballot moves a sum by M - 1 points at most, either way."""
    most = UNIT * spec.parts.assignment.changed_parts(neighbours) * spec.most
    return ScoreRange(neighbours, -most, most)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of the points at this cost. Costs nothing, touches no data.

    An unavailable mechanism, or a cost that is too small to choose the best k, is refused here.
    """
    top_cost, votes_cost = spec.shares(cost)
    if spec.k is not None:
        selection(score_range(spec, neighbours), len(spec.items), top_cost, spec.k)
    return {"votes": best(sensitivity(spec, neighbours), spec.released, votes_cost, spec.mechanism)}
