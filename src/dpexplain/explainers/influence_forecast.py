"""What is chosen for influences over a table before any row is touched: items, cells, weights, draws, orders.

All of it follows from public things: the request, the domain, the number of rows where it is public (or a hint), the
price, and the noise that it will buy. `resolve` makes a request concrete; `forecast` tells the noise.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn

import numpy as np

from dpexplain.core.budget import Cost
from dpexplain.core.domain import Domain, PublicRange
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError
from dpexplain.explainers import marginals as histograms
from dpexplain.explainers.influence_request import BLIND_PREDICTIONS, PREDICTIONS, InfluenceRequest, set_of
from dpexplain.explainers.influence_statistic import DRAWN, Ended, Spec, sensitivity
from dpexplain.games import Asker, Group, Outcome, exact_plan
from dpexplain.games.plans import EXACT
from dpexplain.grids import Partition, cells_of
from dpexplain.models.predictor import SMALLEST_BLOCK
from dpexplain.reference import Reference, points_in
from dpexplain.results import Marginals
from dpexplain.results.influence import MOST_OUTCOMES, MOST_ROWS, heaviest_draw, rounded_up

FEW = 8  # inputs whose sets are all asked unless the caller says otherwise
MOST_FEATURES, MOST_ITEMS = 62, 2**12  # features that are replaced somewhere: the bits of a mask; and sets of them
MOST_WEIGHTS = 2**26  # of a plan
TRIED_ROWS = 2_048  # public ones
LEAST_ORDERS, ORDERS, TRIED = 8, 32, 8  # drawn orders (or sets): at least, without a forecast, pairs that it is made of
UNLIKE = 4  # times the variance between orders on even rows of the domain: that of a table may be so much larger
FAR = 4  # times more than can be drawn: what no other noise of other orders makes good
LAST_DIGITS = 1e-9  # by which floats in a result may differ from those of a forecast
SURE = 0.999  # of the interval that a count is taken to lie in
UNKNOWN_ROWS = 100_000  # what draws are chosen by where the number of rows is private and no hint was given
BASE_WEIGHTS = (1, 2, 3)
COUNT_WEIGHTS = tuple(Fraction(2) ** power for power in range(-3, 5))  # in units of K
TYPICAL = 0.25  # the size of an influence by which the weight of a count is chosen


def resolve(
    request: InfluenceRequest,
    domain: Domain,
    output: PublicRange,
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
    *,
    label: Any = None,
    uses: Sequence[str] | None = None,
    marginals: Marginals | None = None,
    orders: int = ORDERS,
) -> Spec:
    """The concrete spec of a request. Reads nothing but public things.

    label, uses   the model's label and columns
    orders        how many orders (or sets) are drawn where the request leaves it open
    """
    items = items_of(request, domain, uses)
    names = list(dict.fromkeys([*itertools.chain.from_iterable(items), *request.given]))
    paper = request.method == "paper"
    if paper and not neighbours.rows_public:
        raise InputError(
            'method="paper" pairs the rows of a table whose number of rows is public.',
            hint='use relation="replace-one" without units, or the default method',
        )
    if marginals is None:
        partitions = () if paper else _partitions(names, domain, request, neighbours, rows, cost)
    else:  # a feature that the marginals do not have is refused before anything is paid
        partitions = tuple(marginals.rug(name).partition for name in names)
    paid = () if marginals is not None else partitions
    based = request.aggregate == "unary" and (request.quantity != "average" or bool(request.given))
    grouped = request.quantity in ("group", "disparity")
    spec = Spec(
        quantity=request.quantity,
        aggregate=request.aggregate,
        items=items,
        given=tuple(request.given),
        outcome=Outcome.of(output, request.outcome or ("score" if label is None else "class"), request.threshold),
        group=Group.of(request.group, domain) if grouped else None,
        method=request.method,
        draws=1,
        listed=(),
        samples=_samples(request, len(names), orders),
        seed=request.seed,
        partitions=paid,
        marginals=None if marginals is None else marginals.receipt.entry.payload_hash,
        marginals_share=request.marginals_share if paid else Fraction(0),
        # a base cancels what centring takes off; without one it pays where a row's coming or going counts
        centred=request.aggregate == "unary" and (based or neighbours.relation is Relation.ADD_REMOVE),
        base_weight=1 if based else 0,
        count_weight=0,
        counts=_counts(request.quantity, neighbours),
        mechanism=Law.LAPLACE.value if paper and request.mechanism is None else request.mechanism,
    )
    points = {p.feature: int(points_in(domain[p.feature], p).sum()) for p in partitions}
    return _with_draws(_with_weights(spec, neighbours, cost), request, neighbours, rows, cost, points)


def items_of(request: InfluenceRequest, domain: Domain, uses: Sequence[str] | None) -> tuple[tuple[str, ...], ...]:
    """The sets of features that are asked for: those of the request, or all that the model uses but the given ones."""
    used = [name for name in (domain if uses is None else uses) if name not in request.given]
    items = tuple(set_of(item) for item in (used if request.features is None else request.features))
    for name in itertools.chain(request.given, *items):
        domain.column(name)
    if not items:
        raise InputError("there is no feature to be asked for beside the given ones.")
    if len(items) > MOST_ITEMS:
        raise InputError(f"{len(items):,} sets are too many; {MOST_ITEMS:,} is the most.", hint="name some of them")
    if (many := len({*itertools.chain(request.given, *items)})) > MOST_FEATURES:
        raise InputError(f"{many} features are too many; {MOST_FEATURES} is the most.", hint="name some of them")
    return items


def _partitions(
    names: Sequence[str],
    domain: Domain,
    request: InfluenceRequest,
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
) -> tuple[Partition, ...]:
    """The cells of marginals that are paid for here."""
    if request.cells is not None:
        return cells_of(names, domain, request.cells)
    return histograms.cells_for(names, domain, neighbours, _known(rows), split(cost, request.marginals_share)[0])


def _samples(request: InfluenceRequest, inputs: int, orders: int) -> int | None:
    """How many orders or sets are drawn; None where all sets are asked for."""
    if request.aggregate == "unary":
        return None
    exact = request.exact if request.exact is not None else request.samples is None and inputs <= FEW
    if exact:
        if inputs > EXACT:
            exact_plan(inputs, request.aggregate, 1)  # refuses
        return None
    samples = orders if request.samples is None else request.samples
    if samples * inputs > MOST_OUTCOMES:
        raise InputError(
            f"{samples:,} orders of {inputs} inputs are too many.", hint=f"at most {MOST_OUTCOMES // inputs:,}"
        )
    return samples


def _counts(quantity: str, neighbours: Neighbours) -> int:
    """How many counts must be released: under replace-one without units what is left of a group is known with it."""
    if neighbours.rows_public:
        return 0 if quantity == "average" else 1
    return 2 if quantity == "disparity" else 1


def variance(spec: Spec, neighbours: Neighbours, cost: Cost) -> float:
    """The forecast variance of a sum of influences, in whole steps: of the noise of the sum, of its base, and of the
    count that it will be divided by.

    The noise of a count counts as much as the mean that is divided by it, without what centring took off: half of the
    range for a centred average, and little otherwise.
    """
    noise, x, w = forecast(spec, neighbours, cost)["influences"], spec.base_weight, spec.count_weight
    mean = spec.K / 2 if spec.centred and not x else spec.K * TYPICAL
    return noise.std**2 * (1 + (1 / x**2 if x else 0) + ((mean / w) ** 2 if w else 0))


def _with_weights(spec: Spec, neighbours: Neighbours, cost: Cost) -> Spec:
    """The weights of the base and of the counts with the smallest forecast variance."""
    bases = BASE_WEIGHTS if spec.base_weight else (0,)
    weights = [math.ceil(spec.K * part) for part in COUNT_WEIGHTS] if spec.counts else [0]
    candidates = [replace(spec, base_weight=x, count_weight=w) for x in bases for w in weights]
    return min(candidates, key=lambda candidate: variance(candidate, neighbours, cost))


def _with_draws(
    spec: Spec,
    request: InfluenceRequest,
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
    points: Mapping[str, int],
) -> Spec:
    """As many draws as make the Monte Carlo error half of the noise, if that does not take too many predictions.

    A feature by itself that has no more points than that is gone through point by point instead, and then has no such
    error. Drawn orders and sets take turns with the draws. More of these then cost no prediction, but fewer outcomes
    are shared, and the bound may grow.
    """
    drawn = _drawn_variance(spec, rows)
    wanted = math.ceil(4 * drawn / max(variance(spec, neighbours, cost), 1.0))
    if spec.samples is not None:
        return spec if spec.method == "paper" else _taking_turns(spec, neighbours, cost, drawn, wanted)
    listing = spec.single and spec.method != "paper"

    def asked(draws: int) -> int:
        """How many questions about each row."""
        return sum(min(points[name], draws) for name in spec.names) if listing else draws * spec.plan.asked

    # what becomes of sets is a matrix: of a line for each, and a column for each question
    technical = MOST_OUTCOMES if listing else min(MOST_OUTCOMES, max(asked(1), MOST_WEIGHTS // spec.lines))

    def affordable(questions: int) -> int:
        """How many draws, of those that are wanted."""
        wished = range(1, min(MOST_OUTCOMES, wanted) + 1)
        return max(1, bisect.bisect_right(wished, min(questions, technical), key=asked))

    if request.samples is not None:
        if asked(request.samples) > technical:
            raise InputError(
                f"every row would be asked about {asked(request.samples):,} times; {technical:,} is the most.",
                hint="fewer samples, or fewer features",
            )
        draws, ended = request.samples, None
    elif spec.method == "paper":
        return spec
    else:
        each = _each(rows)
        draws, most = affordable(allowed(request, rows) // each), affordable(MOST_OUTCOMES)
        points_of_all = max(points.values()) if listing else 0
        needed = min(wanted, points_of_all) if listing else wanted
        whole = listing and most >= points_of_all
        ended = Ended(asked=asked(draws), most=asked(most), each=each, whole=whole) if draws < needed else None
    if listing:
        listed = tuple(name for name in spec.names if points[name] <= draws)
        return replace(spec, draws=min(draws, max(points.values())), listed=listed, ended=ended)
    return replace(spec, draws=draws, ended=ended)


def _drawn_variance(spec: Spec, rows: int | None) -> float:
    """At most the variance of a sum of influences over the draws, for one draw for each row; in whole steps."""
    single = spec.aggregate == "unary" and not spec.given
    return _known(rows) * (spec.K / 2 if single else spec.K) ** 2


def _each(rows: int | None) -> int:
    """How many predictions a question about every row takes: one block at least."""
    return min(max(SMALLEST_BLOCK, _known(rows)), MOST_ROWS)


def _known(rows: int | None) -> int:
    return UNKNOWN_ROWS if rows is None else rows


def allowed(request: InfluenceRequest, rows: int | None) -> int:
    """How many predictions may be taken."""
    if request.most_predictions is not None:
        return request.most_predictions
    return BLIND_PREDICTIONS if rows is None else PREDICTIONS


def _taking_turns(spec: Spec, neighbours: Neighbours, cost: Cost, drawn: float, wanted: int) -> Spec:
    """So many draws for drawn orders or sets that noise and Monte Carlo error together are smallest."""
    assert spec.samples is not None
    most = min(wanted, -(-spec.samples // 2))
    tried = [*itertools.takewhile(lambda draws: draws < most, (4**power for power in itertools.count())), most]
    candidates = [replace(spec, draws=draws) for draws in tried]
    return min(candidates, key=lambda candidate: variance(candidate, neighbours, cost) + drawn / candidate.draws)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this price. Costs nothing, touches no data."""
    counts_cost, sums_cost = split(cost, spec.marginals_share)
    parts = {"influences": best(sensitivity(spec, neighbours), spec.size, sums_cost, spec.mechanism)}
    if spec.partitions:
        parts |= histograms.forecast(histograms.Spec(spec.partitions, None), neighbours, counts_cost)
    return parts


# Chance and noise -----------------------------------------------------------------------------------------------------


def settled(
    request: InfluenceRequest,
    spec: Spec,
    make: Callable[[InfluenceRequest, int], Spec],
    asker: Asker,
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
    known: Mapping[str, Reference],
) -> Spec:
    """The spec with its number of orders (or sets), where they are drawn by forecast.

    Where chance would outweigh the noise, it is refused, unless the caller said where the work ends: to ask again with
    more predictions would be another request, which costs again. Without a known number of rows there is nothing to
    refuse by.

    make   the spec of a request, with a number of orders
    """
    if request.samples is not None:
        return spec
    facts = (neighbours, rows, cost)
    ordered = spec.samples is not None
    between = between_orders(spec, asker, known) if ordered else 0.0

    def taking(most: int | None) -> Spec:
        """What becomes of the request with so many predictions."""
        asked = replace(request, most_predictions=most)
        if not ordered:
            return make(asked, ORDERS)
        orders, ended = orders_for(spec, between, partial(make, asked), *facts, allowed(asked, rows))
        return replace(make(asked, orders), ended=ended)

    def chance_taking(most: int) -> float:
        return chance(taking(most), *facts, between)

    found = taking(request.most_predictions) if ordered else spec
    if request.most_predictions is None and rows is not None and found.ended is not None:
        times = chance(found, *facts, between)
        if times > 1:
            questions = math.prod(_most_orders(spec)) if ordered else found.ended.most
            listable = ordered and len(spec.names) <= EXACT
            _refuse_chance(found.ended, questions, times, chance_taking, listable=listable)
    return found


def _refuse_chance(
    ended: Ended, questions: int, times: float, chance_taking: Callable[[int], float], *, listable: bool
) -> NoReturn:
    """Chance must not have more than once the variance of the noise.

    questions   about a row that can be asked at most
    chance_taking  how many times the variance of the noise chance has with a number of predictions
    listable    whether orders (or sets) are drawn that could all be gone through
    """
    said = "chance in what is drawn for each row would outweigh the noise"
    number, most = ended.asked * ended.each, rounded_up(questions * ended.each)
    while times > 1:
        beyond = times * number > FAR * most and not ended.whole  # plans of many orders take time
        if beyond or number >= most:
            others = "a smaller price, or fewer features" + (", or perhaps exact=True" if listable else "")
            raise InputError(
                f"{said}, and no number of predictions brings it below: a row is asked about at most {questions:,} "
                "times.",
                hint=f"{others}; most_predictions={most:_} draws as much as can be drawn, and the intervals say what "
                "chance adds",
            )
        number = rounded_up(min(most, number * times))
        times = chance_taking(number)
    raise InputError(
        f"{said}: it takes {number:,} predictions to bring it below.",
        hint=f"most_predictions={number:_} takes them; with a smaller number, or with samples=, the work ends there, "
        "and the intervals say what chance adds",
    )


def chance(spec: Spec, neighbours: Neighbours, rows: int | None, cost: Cost, between: float = 0.0) -> float:
    """At most how many times the variance of the noise the Monte Carlo error will have, by the measure of the result.

    The noise of a count may turn out to add nothing, and the count itself to be larger than it is (where it is less
    sure than by half, nothing is said about the rows). Of a disparity, equal groups are the worst case: with a and b
    rows, (1/a + 1/b) / (1/a^2 + 1/b^2) is at most (a + b) / 2, and 1 / (1/a^2 + 1/b^2) less than the square of that.

    between   the variance between pairs of orders (or sets), in units of the range
    """
    noise, x, n = forecast(spec, neighbours, cost)["influences"], spec.base_weight, _known(rows)
    unsure = spec.counts * noise.halfwidth(SURE) / spec.count_weight if spec.counts else 0.0
    size = (n + min(unsure, n / 2)) / spec.blocks
    listed = set(spec.names) <= set(spec.listed)
    drawn = 0.0 if listed else size * _drawn_variance(spec, 1) * heaviest_draw(spec.samples, spec.draws)
    sampled = 0.0 if spec.samples is None else between * (size * spec.K) ** 2 / math.ceil(spec.samples / 2)
    level = noise.std**2 * (1 + (1 / x**2 if x else 0)) * (1 - LAST_DIGITS)
    return (drawn + sampled) / level if level else math.inf if drawn + sampled else 0.0


# Drawn orders and sets ------------------------------------------------------------------------------------------------


def orders_for(
    spec: Spec,
    between: float,
    make: Callable[[int], Spec],
    neighbours: Neighbours,
    rows: int | None,
    cost: Cost,
    most_predictions: int,
) -> tuple[int, Ended | None]:
    """So many orders (or sets) that neither their sampling error nor the Monte Carlo error of one draw for each pair of
    them is more than half of the noise; and what ended them before.

    The noise is that of `spec`. Other orders have another one, and where it is so much smaller that chance would
    outweigh it, there are more of them. `make` tells the spec of a number of orders; `between` is their variance.
    """
    n, noise, paper = _known(rows), max(variance(spec, neighbours, cost), 1.0), spec.method == "paper"
    drawn = 0.0 if paper else _drawn_variance(spec, rows)  # paired rows have one draw
    wanted = max(LEAST_ORDERS, 2 * math.ceil(4 * max((n * spec.K) ** 2 * between, drawn) / noise))
    each, (questions, technical) = _each(rows), _most_orders(spec)
    limit = max(LEAST_ORDERS, min(technical, most_predictions // (each * questions) // 2 * 2))
    while not paper and wanted <= limit and (times := chance(make(wanted), neighbours, rows, cost, between)) > 1:
        wanted = 2 * math.ceil(wanted / 2 * times)
    orders = min(wanted, limit)
    if paper or orders >= wanted:
        return orders, None
    return orders, Ended(asked=orders * questions, most=min(wanted, technical) * questions, each=each, whole=False)


def _most_orders(spec: Spec) -> tuple[int, int]:
    """How many questions an order (or a set) takes, and how many of them can be drawn at most."""
    inputs = len(spec.names)
    return inputs if spec.aggregate == "shapley" else 1, max(LEAST_ORDERS, MOST_OUTCOMES // inputs // 2 * 2)


def between_orders(spec: Spec, asker: Asker, known: Mapping[str, Reference]) -> float:
    """The variance between pairs of orders (or sets), in units of the range: on rows drawn from the `known`
    distributions, or evenly from the domain, and then so much more as a table may have.
    """
    return float((1 if known else UNLIKE) * max(_spread(spec, asker, known)) ** 2)


def sampling_error(spec: Spec, asker: Asker, known: Mapping[str, Reference]) -> tuple[float, ...]:
    """The standard deviation that drawn orders or sets add to each influence: on rows drawn from released marginals."""
    assert spec.samples is not None
    pairs = -(-spec.samples // 2)
    return tuple(spec.outcome.range.width * spread / math.sqrt(pairs) for spread in _spread(spec, asker, known))


def _spread(spec: Spec, asker: Asker, known: Mapping[str, Reference]) -> list[float]:
    """The standard deviation between pairs of orders (or of sets) of the mean influence of public rows, in units of
    the range. All pairs meet the same rows and the same other values.
    """
    public = PublicRandom(spec.seed)
    rows, others = (_public_rows(public, asker, known) for _ in range(2))
    values = {name: [others[name]] for name in spec.names}
    plans = [DRAWN[spec.aggregate](len(spec.names), 2, 1, spec.seed + pair) for pair in range(TRIED)]
    found = [asker.influences(rows, plan, spec.names, values, absolute=spec.absolute).mean(axis=0) for plan in plans]
    spread: list[float] = (np.std(found, axis=0, ddof=1) / spec.K).tolist()
    return spread


def _public_rows(public: PublicRandom, asker: Asker, known: Mapping[str, Reference]) -> Rows:
    """Some rows: evenly from the domain, but columns whose distribution was released from that."""
    rows = public.rows(asker.predictor.domain, TRIED_ROWS)
    draw = public.generator
    columns = {name: r.at(r.cell_at(draw.random(rows.size)), draw.random(rows.size)) for name, r in known.items()}
    return Rows(rows.domain, {**rows.columns, **columns}, rows.size)
