"""A differentially private stand-in: a distribution over the declared domain, from which synthetic rows are drawn.

Guarantee    the account's definition and cost, for one unit replaced or added or removed. Public: the cells, the
             declared domain, the shares of the cost, and the number of rows under replace-one without units.
Statistic    counts of the public cells of every column (or those of marginals that the account released before). In the
             grade "tree", cells that are rare by released counts are taken together, then for every pair of columns
             the counts n_ab, and as the score of a pair |n_ab - e_ab|_1, where e_ab is the product of released counts
             over their total, rounded to whole numbers.
             With a model also counts by (score cell, cell of a column), for its inputs and for the target.
Sensitivity  counts of columns, of pairs and by scores: a row is in one cell of each, `Sensitivity.of_counts`. Scores of
             pairs each move within [-c, c] for c rows that come or leave: `spec.edge_range` has the proof.
Release      counts of columns; then one exponential mechanism after the other, each over the pairs that join two parts
             of the forest so far, until all columns are joined; then the counts of these pairs. The fit of a tree by
             belief propagation, synthetic rows and their weights are post-processing.
References   McKenna, Miklau, Sheldon 2021 (MST); McKenna, Sheldon, Miklau 2019 (the fit).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from dpexplain.core.budget import Cost
from dpexplain.core.release import Gate
from dpexplain.data.public_random import PublicRandom
from dpexplain.data.rows import Rows
from dpexplain.data.table import PrivateTable
from dpexplain.design import DataFlow
from dpexplain.errors import InputError, InternalError
from dpexplain.maths.grids import WHOLE_NUMBERS, cells_of
from dpexplain.maths.trees import Edge, Joint
from dpexplain.methods import histogram
from dpexplain.methods.marginals.result import Marginals
from dpexplain.methods.setting import LEVEL, Outlook, Setting
from dpexplain.methods.stand_in.request import StandInRequest
from dpexplain.methods.stand_in.result import StandIn
from dpexplain.methods.stand_in.spec import (
    DOMAIN,
    MAX_PAIR_CELLS,
    MAX_TREE_COLUMNS,
    RARE,
    WHY,
    Columns,
    Integers,
    Spec,
    choice,
    edge_range,
    edge_scores,
    forecast,
    pair_cells,
    pair_statistic,
    score_statistic,
    too_wide,
)
from dpexplain.models import Model, Predictor
from dpexplain.models.arguments import of_wrapped

# cells of a column of numbers, and how many whole numbers have a cell each: many where an even share of the rows in
# each of the latter is at least so many standard deviations of the noise of a count, else few
CELLS, FULL = ((32, WHOLE_NUMBERS), (12, 12)), 0.75
MANY_CELLS = CELLS[0][0]
SHARES = (Fraction(1, 3), Fraction(1, 6), Fraction(1, 2))  # of the price: columns, choices, pairs
KNOWN_SHARES = (Fraction(0), Fraction(1, 4), Fraction(3, 4))  # where the counts of columns are known
FINE = 35  # a tree where one in so many rows is no rare cell of a pair
SCORE_SHARE = Fraction(1, 4)  # of the price for counts by the scores of a model, where there is one
SCORE_CELLS = 8
SCORED_ROWS = 4_096  # public rows, by whose scores cells are cut
SCORE_STEPS = 1_024  # edges are whole steps of the output range, so that rounding errors of a model do not show
PRICED = "the declared domain costs nothing: no row of the table is read."
WITHOUT_PRICE = 'leave epsilon and rho out; grade="auto" buys a stand-in that knows the table'
UNKNOWN_ROWS = 1_000  # where their number is private and there is no hint


def resolve(request: StandInRequest, setting: Setting, cost: Cost) -> Spec:
    """The concrete spec of a request. Reads nothing but public things."""
    names, known, scored = _names(request, setting), setting.marginals, _scored(request, setting)
    if request.free:
        partitions = cells_of(names, setting.domain, MANY_CELLS)
        return Spec(DOMAIN, partitions, request.target, MANY_CELLS, (Fraction(0),) * 3)
    spec = _without_scores(request, setting, cost * (1 - SCORE_SHARE) if scored else cost, names, known, scored)
    if not scored:
        return spec
    only = not any(spec.shares)
    edges = tuple(np.linspace(setting.output.low, setting.output.high, SCORE_CELLS + 1).tolist())
    share = Fraction(1) if only else SCORE_SHARE
    return replace(spec, score_columns=tuple(scored), score_edges=edges, score_share=share)


def _scored(request: StandInRequest, setting: Setting) -> list[str]:
    """The columns that are counted by a model's scores: its inputs, and the target; none without a model."""
    if setting.features is None:
        return []
    names = _names(request, setting)
    wanted = [name for name in names if name in (*setting.features, request.target)]
    if not any(name in setting.features for name in wanted):
        raise InputError("the stand-in has no column that the model uses.", hint="name some of them in features")
    return wanted


def _without_scores(
    request: StandInRequest,
    setting: Setting,
    cost: Cost,
    names: Sequence[str],
    known: Marginals | None,
    scored: Sequence[str],
) -> Spec:
    if known is not None and request.grade == "marginals":
        if scored:
            partitions = tuple(known.histogram(name).partition for name in names)
            payload = known.receipt.entry.payload_hash
            return Spec("marginals", partitions, request.target, MANY_CELLS, (Fraction(0),) * 3, payload)
        raise InputError(
            "these marginals are a stand-in of this grade already: nothing is left to release.",
            hint='leave marginals out, or use grade="tree"',
        )
    if known is not None:
        partitions = tuple(known.histogram(name).partition for name in names)
        draft = Spec("tree", partitions, request.target, MANY_CELLS, KNOWN_SHARES, known.receipt.entry.payload_hash)
        return _require_tree(draft, "marginals")
    draft = Spec("tree", (), request.target, MANY_CELLS, SHARES)
    if request.grade != "marginals" and len(names) > 1:
        tree = _with_cells(draft, names, setting, cost)
        if request.grade == "tree":
            return _require_tree(tree, "grade")
        if too_wide(tree):
            draft = replace(draft, why="wide")
        elif worth_a_tree(tree, setting, cost):
            return replace(tree, why="clear")
        else:
            draft = replace(draft, why="noise")
    elif request.grade == "tree":
        raise InputError("a tree needs at least two columns.", hint='use grade="marginals"')
    plain = replace(draft, grade="marginals", shares=(Fraction(1), Fraction(0), Fraction(0)))
    return _with_cells(plain, names, setting, cost)


def _names(request: StandInRequest, setting: Setting) -> list[str]:
    """The columns: all declared ones or those that are named, and the target among them."""
    domain = setting.domain
    if request.target is not None:
        domain.column(request.target)
    names = list(domain if request.features is None else request.features)
    for name in names:
        domain.column(name)
    return names if request.target is None or request.target in names else [*names, request.target]


def _with_cells(draft: Spec, names: Sequence[str], setting: Setting, cost: Cost) -> Spec:
    """The spec with few or many cells for numbers, by the noise of a count and the number of rows."""
    rows, several = setting.hint or UNKNOWN_ROWS, list[Spec]()
    for cells, most_whole in CELLS:
        partitions = cells_of(names, setting.domain, cells, most_whole=most_whole)
        several.append(replace(draft, partitions=partitions, cells=cells))
        if rows / most_whole >= FULL * forecast(several[-1], setting.neighbours, cost)["counts"].std:
            break
    return several[-1]


def worth_a_tree(spec: Spec, setting: Setting, cost: Cost) -> bool:
    """Whether cells of one in 35 rows would not be rare where pairs are counted, so that columns keep some detail: by
    public things alone. On three tables a tree begins to have the smaller error of pairs between a half of this cost
    (Adult) and three times as much (Framingham): `python -m bench stand_in`.
    """
    rows = setting.hint or UNKNOWN_ROWS
    return rows / FINE >= RARE * forecast(spec, setting.neighbours, cost)["pairs"].std


def _require_tree(spec: Spec, why: str) -> Spec:
    if len(spec.partitions) < 2:
        raise InputError("a tree needs at least two columns.", hint="name more features")
    if too_wide(spec):
        instead = ', or use grade="marginals"' if why == "grade" else ""
        raise InputError(
            f"the pairs of {len(spec.partitions)} columns have {pair_cells(spec):,} cells; a tree can have "
            f"{MAX_TREE_COLUMNS} columns and {MAX_PAIR_CELLS:,} cells.",
            hint=f"name fewer features{instead}",
        )
    return spec


def outlook(request: StandInRequest, setting: Setting, cost: Cost) -> Outlook:
    """How far noise will move the counts."""
    if request.free:
        raise InputError(PRICED, hint=WITHOUT_PRICE)
    spec = resolve(request, setting, cost)
    parts = forecast(spec, setting.neighbours, cost)
    if spec.grade == "tree":
        choice(spec, setting.neighbours, cost)
    noise = next(iter(parts.values()))
    what = "a value" if "counts" in parts else "a pair of values" if "pairs" in parts else "a value and a score"
    note = f"The error is that of the number of rows with {what}."
    if spec.grade == "tree":
        note += f" Pairs of values: ± {parts['pairs'].halfwidth(LEVEL):.3g} rows, before they are fitted together."
    else:
        note += " Columns are independent of each other in this grade" + (f": {WHY[spec.why]}." if spec.why else ".")
    return Outlook(noise.law.value, noise.size, noise.std, noise.halfwidth(LEVEL), noise.band(LEVEL), note=note)


def diagram() -> DataFlow:
    """Where the rows go, and where noise is added."""
    stages = {
        "table": "private rows",
        "counts": "rows in each public cell of each column",
        "groups": "rare cells taken together, by noisy counts",
        "pairs of columns": "rows in each cell of each pair of columns",
        "edges": "choice of the pairs that belong together most",
        "pairs": "counts of the chosen pairs",
        "scores": "rows by score cell of a model and cell of a column, where a model is given",
        "stand-in": "a tree fitted to all noisy counts",
        "rows": "synthetic rows, by public draws",
    }
    edges = [
        ("table", "counts"), ("counts", "groups"), ("table", "pairs of columns"), ("groups", "pairs of columns"),
        ("pairs of columns", "edges"), ("counts", "edges"), ("pairs of columns", "pairs"), ("edges", "pairs"),
        ("counts", "stand-in"), ("pairs", "stand-in"), ("stand-in", "rows"), ("table", "scores"), ("groups", "scores"),
        ("scores", "stand-in"),
    ]  # fmt: skip
    return DataFlow(stages, edges, name="Stand-in", noised=["counts", "edges", "pairs", "scores"])


def choose(gate: Gate, scores: Integers, spec: Spec, cost: Cost) -> list[Edge]:
    """Send the choice of a tree through the gate, edge by edge.

    Which pairs join two parts of the forest so far follows from the choices that were released before.
    """
    by_pair, chosen = dict(zip(spec.pairs, scores.tolist(), strict=True)), list[Edge]()
    change, (_, price) = edge_range(gate.neighbours), choice(spec, gate.neighbours, cost)
    for number in range(1, len(spec.partitions)):
        open_pairs = spec.open_pairs(chosen)
        (place,) = gate.select(f"edge-{number}", [by_pair[pair] for pair in open_pairs], change, price)
        chosen.append(open_pairs[place])
    return chosen


def explain(
    table: PrivateTable,
    model: Model | None,
    request: StandInRequest,
    *,
    cost: Cost | None,
    marginals: Marginals | None = None,
) -> StandIn:
    """Release the stand-in of `request` for `cost`; without one, that of the declared domain."""
    if request.free:
        return _of_domain(table, model, request, cost, marginals)
    if cost is None:
        table.cost()  # refuses
        raise InternalError("a release without a price")
    if marginals is not None:
        names = _names(request, Setting.of(table))
        histogram.known_marginals(table, marginals, names)
    setting = Setting.of(table, model, marginals=marginals)
    spec = resolve(request, setting, cost)
    predictor = None if model is None else table.predictor(model)
    if predictor is not None:
        spec = replace(spec, score_edges=score_edges(predictor, setting, marginals))
    laws, prices = forecast(spec, table.neighbours, cost), spec.prices(cost)
    if spec.grade == "tree":
        choice(spec, table.neighbours, cost)  # a price that is too small is refused here, before anything is reserved
    pair_std = max(law.std for name, law in laws.items() if name != "counts" or len(laws) == 1)
    label = request.label

    def columns(gate: Gate) -> Columns:
        """The first pass: released counts of columns; or those of an earlier release, and no pass."""
        if marginals is not None:
            counts = np.concatenate([marginals.noisy_counts(name) for name in spec.features])
            std = marginals.part("counts")[1].std
        else:
            sent = histogram.send(table, gate, "counts", spec.partitions, prices["counts"], label + ": columns")
            counts, std = np.array(sent, dtype=np.int64), laws["counts"].std
        return spec.columns(counts, std, pair_std, table.size)

    def body(gate: Gate) -> None:
        known = columns(gate)
        places = [grouping.place for grouping in known.groupings]
        if spec.grade == "tree":
            send_tree(gate, known, places)
        if model is not None and predictor is not None:
            kernel = partial(score_statistic, spec=spec, places=places, predictor=predictor)
            read, safe = list(dict.fromkeys([*predictor.features, *spec.features])), model.thread_safe
            size = spec.score_cells * sum(known.sizes[spec.features.index(name)] for name in spec.score_columns)
            by_score = table.sum_rows(gate, kernel, read, size=size, label=label + ": scores", parallel=safe)
            tables = len(spec.score_columns)
            law = laws["scores"].law.value
            gate.noisy_counts("scores", by_score, prices["scores"], partitions=tables, mechanism=law)

    def send_tree(gate: Gate, known: Columns, places: list[Integers]) -> None:
        kernel = partial(pair_statistic, partitions=spec.partitions, places=places)
        exact = table.sum_rows(gate, kernel, spec.features, size=known.size, label=label + ": pairs")
        tables = known.tables(exact)
        chosen = choose(gate, edge_scores(tables, known), spec, cost)
        counts = np.concatenate([tables[spec.pairs.index(pair)].ravel() for pair in chosen])
        gate.noisy_counts("pairs", counts, prices["pairs"], partitions=len(chosen), mechanism=laws["pairs"].law.value)

    public = ["the cells"] if model is None else ["the model", "the cells", "the cells of its scores"]
    about: dict[str, Any] = {} if model is None else {"model": model.identity}
    about |= histogram.builds_on(marginals)
    receipt, payload = table.release("stand-in", label, spec.to_json(), cost, body, public=public, **about)
    return StandIn(receipt, payload, marginals)


def _of_domain(
    table: PrivateTable, model: Model | None, request: StandInRequest, cost: Cost | None, marginals: Marginals | None
) -> StandIn:
    """The declared domain as a stand-in: epsilon = 0, because nothing is read. The ledger keeps that it was made, so
    that what rests on it can name it.
    """
    if cost is not None:
        raise InputError(PRICED, hint=WITHOUT_PRICE)
    if model is not None or marginals is not None:
        given = "a model" if marginals is None else "marginals"
        raise InputError(
            f"the declared domain has no use for {given}: nothing is counted.",
            hint="leave it out; whatever uses the stand-in asks the model later",
        )
    spec = resolve(request, Setting.of(table), table.budget.total)
    nothing = table.budget.total * 0
    receipt, payload = table.release(
        "stand-in", request.label, spec.to_json(), nothing, lambda _: None, public=["the cells"]
    )
    return StandIn(receipt, payload)


def score_edges(predictor: Predictor, setting: Setting, marginals: Marginals | None) -> tuple[float, ...]:
    """The edges of cells that hold equal shares of the scores of public rows: of the product of marginals that were
    released before, or of rows as tables may have them, drawn from the declared domain. Never of the table.
    """
    domain, output, names = setting.domain, setting.output, predictor.features
    if marginals is not None and all(name in marginals.features for name in names):
        shares = [marginals.shares(name) for name in names]
        joint = Joint.product(domain, [marginals.histogram(name).partition for name in names], shares)
        rows = Rows(domain, joint.draw(SCORED_ROWS, 0), SCORED_ROWS)
    else:
        quarter = SCORED_ROWS // 4
        rows, *others = [PublicRandom(seed).likely_rows(domain, quarter) for seed in range(3)]
        rows = rows.before([*others, PublicRandom(3).rows(domain, quarter)])
    scores = predictor.predict_at(predictor.inputs(rows), {})
    known = np.clip(scores[~np.isnan(scores)], output.low, output.high)
    inner = np.quantile(known, np.arange(1, SCORE_CELLS) / SCORE_CELLS) if len(known) else np.array([output.middle])
    steps = np.unique(np.rint((inner - output.low) / output.width * SCORE_STEPS)).tolist()
    edges = [output.low + output.width * step / SCORE_STEPS for step in steps if 0 < step < SCORE_STEPS]
    return output.low, *edges, output.high


@of_wrapped
def stand_in(
    table: PrivateTable,
    model: Model | None = None,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    target: str | None = None,
    features: Sequence[str] | None = None,
    grade: Literal["auto", "domain", "marginals", "tree"] = "auto",
    marginals: Marginals | None = None,
) -> StandIn:
    """A released distribution over the declared columns: `.rows(n)` are synthetic rows for any explainer, free.

    `epsilon` (or `rho`) is the whole cost. `marginals` that this table's account has released before take the place of
    the counts of columns: the whole cost is then for pairs. With a `model`, a quarter of the cost is for counts by
    its scores (`.score_tables`), which say how predictions go with its inputs and with the target. `grade="domain"` is
    the declared domain itself: it has no cost, and the table is not read.
    `requests.StandIn` describes the options.
    """
    request = StandInRequest(features=features, target=target, grade=grade)
    without = request.free and epsilon is None and rho is None
    cost = None if without else table.cost(epsilon=epsilon, rho=rho)
    return explain(table, model, request, cost=cost, marginals=marginals)
