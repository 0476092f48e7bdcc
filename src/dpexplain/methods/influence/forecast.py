"""What is chosen for influences over a table before any row is touched: items, cells, weights, draws, orders.

All of it follows from public things: the request, the domain, the number of rows where it is public (or a hint), the
cost, and the noise that it will buy. `resolve` makes a request concrete; `forecast` tells the noise.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri, stdtrit

from dpexplain.core.budget import Cost
from dpexplain.core.mechanisms import best
from dpexplain.core.noise import Law, Noise
from dpexplain.core.release import split
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.data.groups import Group
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError
from dpexplain.maths.games import DRAWN, EXACT, exact_plan
from dpexplain.maths.grids import cells_of
from dpexplain.maths.reference import Reference, points_in
from dpexplain.methods import histogram as histograms
from dpexplain.methods.influence.request import PREDICTIONS, InfluenceRequest, set_of
from dpexplain.methods.influence.spec import MOST_OUTCOMES, MOST_ROWS, Ended, Spec, sensitivity
from dpexplain.methods.setting import Setting
from dpexplain.models.outcomes import Asker, Outcome
from dpexplain.models.predictor import SMALLEST_BLOCK

if TYPE_CHECKING:
    from dpexplain.methods.transparency.request import TransparencyRequest

FEW = 8  # inputs whose sets may all be asked unless the caller says otherwise
MOST_FEATURES, MOST_ITEMS = 62, 2**12  # features that are replaced somewhere: the bits of a mask; and sets of them
MOST_WEIGHTS = 2**26  # of a plan
TRIED_ROWS, TRIED = 2_048, 8  # public rows, and pairs of orders (or sets), by which the error of drawn ones is told
ORDERS = 32  # that all rows share, of paired rows
LEAST_ROWS = 2**12  # that are used, where not all of them can be
UNKNOWN_ROWS = 100_000  # what draws are chosen by where the number of rows is private and no hint was given
BASE_WEIGHTS = (1, 2, 3)
COUNT_WEIGHTS = tuple(Fraction(2) ** power for power in range(-3, 5))  # in units of K
TYPICAL = 0.25  # the size of an influence by which the weight of a count is chosen
GROUP_PARTS = {"average": (1.0,), "group": (1 / 2,), "disparity": (1 / 3, 2 / 3)}  # forecast parts of the rows
TYPICAL_SPREAD = 0.15  # of the range: what a row's part of an outcome varies by between draws, on three tables


def resolve(request: InfluenceRequest, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    domain, neighbours, marginals = setting.domain, setting.neighbours, setting.marginals
    known = setting.performance  # has released what stands beside the influences
    rates = None if known is None else known.receipt.entry.payload_hash
    items = items_of(request, setting)
    names = list(dict.fromkeys([*itertools.chain.from_iterable(items), *request.given]))
    if len(names) > MOST_FEATURES:
        raise InputError(f"{len(names)} features are too many; {MOST_FEATURES} is the most.", hint="name some of them")
    paper = request.method == "paper"
    if paper and not neighbours.rows_public:
        raise InputError(
            'method="paper" pairs the rows of a table whose number of rows is public.',
            hint='use relation="replace-one" without units, or the default method',
        )
    if marginals is not None:  # a feature that the marginals do not have is refused before anything is paid
        partitions = tuple(marginals.histogram(name).partition for name in names)
    elif paper:
        partitions = ()
    elif request.cells is not None:
        partitions = cells_of(names, domain, request.cells)
    else:
        partitions = histograms.cells_for(
            names, domain, neighbours, known_rows(setting.hint), split(cost, Fraction(request.marginals_share))[0]
        )
    paid = partitions if marginals is None else ()
    unary, grouped = request.aggregate == "unary", request.quantity in ("group", "disparity")
    based = unary and (request.quantity != "average" or bool(request.given))
    classes = () if setting.model is None else setting.model.every_class
    if classes and (grouped or request.given):
        raise InputError(
            "influences on all classes together are those of everybody, beside no given column.",
            hint=f"for a group, or beside columns, name a class: Model(..., label={classes[-1]!r})",
        )
    spec = Spec(
        quantity=request.quantity,
        aggregate=request.aggregate,
        items=items,
        given=tuple(request.given),
        outcome=Outcome.of_classes(setting.output, request.outcome, request.threshold, len(classes))
        if classes
        else Outcome.of(setting.output, request.outcome, request.threshold, setting.label),
        group=Group.of(request.group, domain) if grouped else None,
        method=request.method,
        draws=1,
        listed=(),
        samples=None,
        seed=request.seed,
        partitions=paid,
        marginals=None if marginals is None else marginals.receipt.entry.payload_hash,
        marginals_share=Fraction(request.marginals_share if paid else 0),
        # a base cancels what centring takes off; without one it pays where a row's coming or going counts
        centred=unary and (based or neighbours.relation is Relation.ADD_REMOVE),
        base_weight=1 if based and rates is None else 0,
        count_weight=0,
        counts=0,
        mechanism=Law.LAPLACE.value if paper and request.mechanism is None else request.mechanism,
        # the rates of both groups are shown beside what acts on their difference
        outcome_weight=1 if request.quantity == "disparity" and (request.given or not unary) else 0,
        rates=rates,
    )
    points = {p.feature: int(points_in(domain[p.feature], p).sum()) for p in partitions}

    def finished(samples: int | None, own: bool) -> Spec:
        form, n = replace(spec, samples=samples, own=own), known_rows(setting.hint)
        if request.samples is None and not paper:  # where not all rows can be asked about once, some are used
            needed = -(-n * form.asked // (request.most_predictions or PREDICTIONS))
            form = replace(form, one_in=max(1, min(needed, n // LEAST_ROWS)))
        # with the rows of a group those of all others are known, unless how many are used is left to chance
        known = neighbours.rows_public and form.one_in == 1
        if rates is None:
            form = replace(form, counts=int(grouped) if known else form.blocks)
        elif form.one_in > 1:
            raise InputError(
                "a performance counts every row, and there are too many rows to ask about all of them here.",
                hint=f"most_predictions={n * form.asked:_}, or leave performance out",
            )
        return _with_draws(_with_weights(form, neighbours, cost), request, setting, cost, points)

    forms = [finished(*form) for form in _forms(request, len(names))]
    return min(forms, key=lambda form: _error(form, setting, cost)) if len(forms) > 1 else forms[0]


def items_of(request: InfluenceRequest | TransparencyRequest, setting: Setting) -> tuple[tuple[str, ...], ...]:
    """The sets of features that are asked for: those of the request, or all that the model uses but the given ones."""
    domain = setting.domain
    used = [name for name in (domain if setting.features is None else setting.features) if name not in request.given]
    items = tuple(set_of(item) for item in (used if request.features is None else request.features))
    for name in itertools.chain(request.given, *items):
        domain.column(name)
    if not items:
        raise InputError("there is no feature to be asked for beside the given ones.")
    if len(items) > MOST_ITEMS:
        raise InputError(f"{len(items):,} sets are too many; {MOST_ITEMS:,} is the most.", hint="name some of them")
    return items


def _forms(request: InfluenceRequest, inputs: int) -> list[tuple[int | None, bool]]:
    """How an outcome may be shared out: by orders or sets that rows share (None: all sets), or by each row's own."""
    paper, samples = request.method == "paper", request.samples
    if request.exact and inputs > EXACT:
        exact_plan(inputs, request.aggregate, 1)  # refuses
    if request.aggregate == "unary" or request.exact:
        return [(None, False)]
    if samples is not None and samples * inputs > MOST_OUTCOMES:
        raise InputError(
            f"{samples:,} orders of {inputs} inputs are too many.", hint=f"at most {MOST_OUTCOMES // inputs:,}"
        )
    few = request.exact is None and inputs <= FEW
    if samples is not None or (paper and not few):
        return [(ORDERS if samples is None else samples, False)]
    return [*([(None, False)] if few else []), *([] if paper else [(None, True)])]


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


def _with_draws(spec: Spec, request: InfluenceRequest, setting: Setting, cost: Cost, points: Mapping[str, int]) -> Spec:
    """As many draws as make the Monte Carlo error half of the noise, if that does not take too many predictions.

    A feature by itself that has no more points than that is gone through point by point instead, and then has no such
    error. Drawn orders and sets take turns with the draws. More of these then cost no prediction, but fewer outcomes
    are shared, and the bound may grow.
    """
    paper = spec.method == "paper"
    if paper and (spec.samples is not None or request.samples is None):
        return spec
    drawn = _used(spec, setting.hint) * (spec.spread * spec.K) ** 2
    wanted = math.ceil(4 * drawn / max(variance(spec, setting.neighbours, cost), 1.0))
    if spec.samples is not None:
        return _taking_turns(spec, setting.neighbours, cost, drawn, wanted)
    listing = spec.single and not paper

    def asked(draws: int) -> int:
        """How many questions about each row."""
        return sum(min(points[name], draws) for name in spec.names) if listing else draws * spec.asked

    # what becomes of sets is a matrix: of a line for each, and a column for each question
    matrix = not (listing or spec.own)
    technical = min(MOST_OUTCOMES, max(asked(1), MOST_WEIGHTS // spec.lines)) if matrix else MOST_OUTCOMES

    def affordable(questions: int) -> int:
        """How many draws, of those that are wanted."""
        wished = range(1, min(MOST_OUTCOMES, wanted) + 1)
        return max(1, bisect.bisect_right(wished, min(questions, technical), key=asked))

    most_points, ended = max(points.values()) if listing else 0, None
    if request.samples is not None:
        draws = request.samples
        if asked(draws) > technical:
            raise InputError(
                f"every row would be asked about {asked(draws):,} times; {technical:,} is the most.",
                hint="fewer samples, or fewer features",
            )
    else:
        each = min(max(SMALLEST_BLOCK, known_rows(setting.hint)), MOST_ROWS)  # predictions: one block at least
        predictions = (request.most_predictions or PREDICTIONS) * spec.one_in
        draws, most = affordable(predictions // each), affordable(MOST_OUTCOMES)
        if draws < (min(wanted, most_points) if listing else wanted) or spec.one_in > 1:
            ended = Ended(asked=asked(draws), most=asked(most), each=each, whole=listing and most >= most_points)
    if not listing:
        return replace(spec, draws=draws, ended=ended)
    listed = tuple(name for name in spec.names if points[name] <= draws)
    return replace(spec, draws=min(draws, most_points), listed=listed, ended=ended)


def chance(spec: Spec, rows: int | None) -> float:
    """At most the standard deviation that chance adds to a mean influence, in whole steps (`GROUP_PARTS`)."""
    return 0.0 if spec.certain(spec.names) else _of_mean(spec, rows, spec.spread**2 * spec.heaviest)


def expected_chance(spec: Spec, rows: int | None) -> float:
    """What chance is expected to add, where `chance` is the most that it can ("What `dpx.plan` tells" in
    docs/methods/influence.md). Where rows are chosen at random, influences differ between rows as changes of the whole
    range do that happen to one in four.
    """
    each = 1 / (2 * spec.draws) ** 2 if spec.single else TYPICAL_SPREAD**2 * spec.heaviest_draw
    each += (1 - 1 / spec.one_in) * TYPICAL * (1 - TYPICAL)
    return min(chance(spec, rows), _of_mean(spec, rows, each))


def _of_mean(spec: Spec, rows: int | None, variance: float) -> float:
    """The standard deviation of a mean influence, in whole steps, where that of one row has this variance."""
    return spec.K * math.sqrt(variance / _used(spec, rows) * sum(1 / part for part in GROUP_PARTS[spec.quantity]))


def _error(spec: Spec, setting: Setting, cost: Cost) -> float:
    """The forecast variance of that mean, noise and chance together."""
    parts = sum(1 / part**2 for part in GROUP_PARTS[spec.quantity])
    noise = parts * variance(spec, setting.neighbours, cost) / _used(spec, setting.hint) ** 2
    return noise + chance(spec, setting.hint) ** 2


def known_rows(rows: int | None) -> int:
    return UNKNOWN_ROWS if rows is None else rows


def _used(spec: Spec, rows: int | None) -> float:
    """How many rows will be used, about."""
    return known_rows(rows) / spec.one_in


def _taking_turns(spec: Spec, neighbours: Neighbours, cost: Cost, drawn: float, wanted: int) -> Spec:
    """So many draws for drawn orders or sets that noise and Monte Carlo error together are smallest."""
    assert spec.samples is not None
    most = min(wanted, -(-spec.samples // 2))
    tried = [*itertools.takewhile(lambda draws: draws < most, (4**power for power in itertools.count())), most]
    candidates = [replace(spec, draws=draws) for draws in tried]
    return min(candidates, key=lambda candidate: variance(candidate, neighbours, cost) + drawn / candidate.draws)


def forecast(spec: Spec, neighbours: Neighbours, cost: Cost) -> dict[str, Noise]:
    """The noise of each part at this cost. Costs nothing, touches no data."""
    counts_cost, sums_cost = split(cost, spec.marginals_share)
    parts = {"influences": best(sensitivity(spec, neighbours), spec.size, sums_cost, spec.mechanism)}
    if spec.partitions:
        parts["counts"] = histograms.forecast(spec.partitions, neighbours, counts_cost)
    return parts


# Drawn orders and sets that all rows share ----------------------------------------------------------------------------


def sampling_error(spec: Spec, asker: Asker, known: Mapping[str, Reference]) -> tuple[float, ...]:
    """The standard deviation that drawn orders or sets add to each influence: on rows drawn from released marginals,
    and so much larger than measured that 1.96 of it is the quantile of Student's law for so few pairs.
    """
    assert spec.samples is not None
    pairs, student = -(-spec.samples // 2), float(stdtrit(TRIED - 1, 0.975) / ndtri(0.975))
    scale = spec.outcome.range.width * student / math.sqrt(pairs)
    return tuple(scale * spread for spread in _spread(spec, asker, known))


def _spread(spec: Spec, asker: Asker, known: Mapping[str, Reference]) -> list[float]:
    """How much the mean influence of public rows varies between pairs of orders (or sets), in units of the range."""
    public = PublicRandom(spec.seed)
    rows, others = (_public_rows(public, asker, known) for _ in range(2))
    values = {name: [others[name]] for name in spec.names}
    plans = [DRAWN[spec.aggregate](len(spec.names), 2, 1, spec.seed + pair) for pair in range(TRIED)]
    means = [asker.influences(rows, plan, spec.names, values, absolute=spec.absolute).mean(axis=0) for plan in plans]
    return [float(spread) / spec.K for spread in np.std(means, axis=0, ddof=1)]


def _public_rows(public: PublicRandom, asker: Asker, known: Mapping[str, Reference]) -> Rows:
    """Some rows: evenly from the domain, but columns whose distribution was released from that."""
    rows = public.rows(asker.predictor.domain, TRIED_ROWS)
    draw = public.generator
    columns = {name: r.at(r.cell_at(draw.random(rows.size)), draw.random(rows.size)) for name, r in known.items()}
    return Rows(rows.domain, {**rows.columns, **columns}, rows.size)
