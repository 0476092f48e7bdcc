"""method="posterior": the best combination of the likely counts, their files, and what is refused."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import dpexplain as dpx
from clustered import ATTRIBUTES, CLUSTERING, DOMAIN, LABELS, Printed, all_combinations, binned, people
from dpexplain.core.release import Door
from dpexplain.errors import InputError, VerificationError
from dpexplain.maths import cluster_tables
from dpexplain.methods.clusters.best import Scores
from dpexplain.methods.clusters.release import explain_clusters
from dpexplain.methods.clusters.request import Weights
from dpexplain.methods.clusters.scores import Scoring
from dpexplain.methods.clusters.sharp import SharpClusters
from dpexplain.methods.result import from_json
from dpexplain.models.clustering import Clustering
from stubs import SteadyNoise

pytestmark = pytest.mark.usefixtures("sketched_pictures")

PROTECTIONS = [
    {"relation": "replace-one"},
    {"relation": "add-remove", "budget": dpx.Budget(10**7, 1e-6)},
    {"relation": "add-remove", "unit": dpx.Unit("person", 50)},
]


def explained(table, **options):
    options = {"attributes": ATTRIBUTES, "epsilon": 0.5, "method": "posterior", **options}
    return explain_clusters(table, options.pop("clustering", CLUSTERING), **options)


@pytest.fixture
def table(make_table):
    return make_table(people(1200), domain=DOMAIN, relation="add-remove", rows_hint=1200)


def spent(table):
    return table.ledger.statement(table.name).spent.amount


# The choice -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uses", [1, 2])
@pytest.mark.parametrize("protection", PROTECTIONS)
def test_without_noise_it_is_the_best_combination_with_its_histograms(make_table, protection, uses):
    """Against the printed definitions, by pandas, under every relation."""
    frame = people(600)
    budget = {"budget": dpx.Budget(10**7), **protection}
    table = make_table(frame, exact=True, domain=DOMAIN, **budget)
    result = explained(table, epsilon=10**5, per_cluster=uses)
    printed, thirds = Printed(binned(frame)), (1 / 3, 1 / 3, 1 / 3)
    combinations = all_combinations(ATTRIBUTES, 3, uses)
    assert tuple(map(tuple, result.chosen.values())) == max(combinations, key=lambda c: printed.total(c, thirds))
    cut = binned(frame)
    for e in result.explanations:
        inside = cut["group"] == e.cluster
        for counts, rows in ((e.counts, cut[inside]), (e.rest, cut[~inside])):
            codes = rows[e.attribute]
            if e.partition.edges is None:
                codes = codes.map({label: i for i, label in enumerate(e.partition.labels)})
            expected = np.bincount(codes.astype(int), minlength=len(counts))
            np.testing.assert_allclose(counts, expected, atol=1.0)
    assert result.losses.max() < 1


@pytest.mark.parametrize(("clusters", "attributes", "uses"), [(2, 4, 3), (3, 5, 1), (3, 5, 2), (4, 6, 1)])
def test_the_best_combination_is_that_of_enumeration(clusters, attributes, uses):
    draw = np.random.default_rng(clusters * uses)
    options = list(itertools.combinations(range(attributes), uses))
    for strength in (0.05, 0.3, 1.0) * 10:
        shared = strength * draw.random((clusters, clusters, attributes))
        scores = Scores(draw.random((clusters, attributes)), shared + shared.transpose(1, 0, 2))
        best = max(scores.total(chosen) for chosen in itertools.product(options, repeat=clusters))
        assert scores.total(scores.best(uses)) == pytest.approx(best, rel=1e-12)


def test_scores_of_counts_are_those_of_the_paper():
    """Up to what is the same for all combinations."""
    frame = binned(people(400))
    printed, weights = Printed(frame), (0.5, 0.3, 0.2)
    labels = [*LABELS, "nobody"]
    tables = []
    for name in ATTRIBUTES:
        counts = frame.groupby(["group", name]).size().unstack(fill_value=0).reindex(labels, fill_value=0)
        tables.append(counts.to_numpy(dtype=np.float64))
    scores = Scores.of(tables, Scoring(3, 1, Weights.of(weights)))
    apart = [
        printed.total(c, weights) - scores.total(tuple((ATTRIBUTES.index(a),) for (a,) in c))
        for c in all_combinations(ATTRIBUTES, 3, 1)
    ]
    np.testing.assert_allclose(apart, apart[0], atol=1e-9)


def test_where_noise_hides_everything_the_choice_is_that_of_the_declared_domain(make_table):
    """The rule is public, so it says by itself that age and income tell its clusters apart, and sex does not."""
    by_rule = Clustering.of(
        lambda rows: np.where(rows["age"] < 30, "young", np.where(rows["income"] > 50, "rich", "rest")),
        labels=["young", "rich", "rest"], features=["age", "income"], domain=DOMAIN, name="rule", version="1",
    )  # fmt: skip
    table = make_table(people(1200), domain=DOMAIN, relation="replace-one")
    result = explained(table, clustering=by_rule, epsilon=1e-4)
    assert set(itertools.chain(*result.chosen.values())) <= {"age", "income"}
    assert result.chosen["rich"] == ["income"]


# What is shown --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uses", [1, 2])
def test_histograms_are_consistent_and_intervals_hold_their_values(table, uses):
    table.door = Door(table.door.account, sampler=SteadyNoise())
    result = explained(table, per_cluster=uses, epsilon=0.2)
    assert isinstance(result, SharpClusters)
    total = result.sizes.sum()
    for e in result.explanations:
        assert e.counts.sum() + e.rest.sum() == pytest.approx(total)
        assert e.counts.sum() == pytest.approx(result.sizes[result.labels.index(e.cluster)])
    low, high = result.interval()
    assert (result.values >= 0).all()
    assert ((low <= result.values) & (result.values <= high)).all()
    frame = result.to_frame()
    assert {"released", "proven low", "proven high"} <= set(frame)
    assert np.mean(frame["proven high"] - frame["proven low"]) > 1.2 * np.mean(high - low)
    wider, _ = result.proven_interval(0.99), result.proven_interval(0.9)
    assert (wider[1] >= result.proven_interval()[1]).all()
    assert "likely, not proven" in result.utility
    assert "synthetic rows" in result.basis
    FigureCanvasAgg(Figure(figsize=result.picture_size))
    assert result.plot().figure is not None


def test_a_row_that_is_in_no_synthetic_row_makes_no_division_by_nothing(make_table):
    """All rows are in one cell of every attribute."""
    frame = people(300).assign(age=99, sex="M", kind="d", income=100.0, group="odd")
    result = explained(make_table(frame, domain=DOMAIN, relation="replace-one"), epsilon=5)
    assert np.isfinite(result.values).all()
    assert result.sizes[2] == pytest.approx(300, abs=40)


def test_there_and_back_with_and_without_a_stand_in_for_one_price(table):
    plain = explained(table)
    stand_in = dpx.stand_in(table, epsilon=1)
    before = spent(table)
    sharper = explained(table, stand_in=stand_in)
    assert spent(table) == before  # the same counts
    assert sharper.released == plain.released
    assert f"entry {stand_in.entry}" in sharper.basis
    earlier = f"beside epsilon = 1 (pure) for entry {stand_in.entry}, which it was computed from"
    assert earlier in sharper.receipt.guarantee
    assert "beside" not in plain.receipt.guarantee
    for result in (plain, sharper):
        back = from_json(result.to_json())
        assert back.values.tolist() == result.values.tolist()
        assert back.describe() == result.describe()
        assert back.receipt.guarantee == result.receipt.guarantee


def test_large_tables_are_turned_to_nearly_the_same_posterior(table, monkeypatch):
    exact = explained(table).posterior.means
    monkeypatch.setattr(cluster_tables, "MOST_EXACT", 5)
    near = explained(table).posterior.means
    for one, two in zip(exact, near, strict=True):
        assert np.abs(one - two).max() < 0.05 * one.sum()


# Files and the ledger -------------------------------------------------------------------------------------------------


def altered(result, change):
    document = json.loads(result.to_json())
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["view"].update(labels=d["view"]["labels"][1:]),
        lambda d: d["view"].update(labels=[9] * 3000),
        lambda d: d["view"].update(labels=["0"] * 3000),
        lambda d: d["view"].update(stand_in={"kind": "marginals"}),
        lambda d: d["receipt"]["request"]["spec"].update(per_cluster=9),
    ],
)
def test_a_damaged_file_is_refused(table, change):
    with pytest.raises(InputError):
        from_json(altered(explained(table), change))


def test_verify_compares_the_labels_with_the_ledger_and_with_the_clustering(table):
    result = explained(table)
    (note,) = dpx.verify(result, table.ledger)
    assert "prior unchecked" in note
    assert dpx.verify(result, table.ledger, CLUSTERING) == []
    other = dpx.results.SharpClusters(result.receipt, result.released, (0,) * len(result.given))
    with pytest.raises(VerificationError, match="labels"):
        dpx.verify(other, table.ledger)


def test_verify_notices_a_clustering_that_labels_otherwise(table):
    result = explained(table)
    turned = Clustering.of(
        lambda rows: rows["group"].map({"young": "odd", "odd": "young"}),
        labels=LABELS, domain=DOMAIN, features=["group"], name="group", version="1",
    )  # fmt: skip
    with pytest.raises(VerificationError, match="not those of this clustering"):
        dpx.verify(result, table.ledger, turned)


# Refusals -------------------------------------------------------------------------------------------------------------

BAD = [
    ({"candidates": 2}, "candidates has no meaning"),
    ({"bounds": "paper"}, "bounds has no meaning"),
    ({"histograms": "paper"}, "histograms has no meaning"),
    ({"selection_share": 0.5}, "selection_share has no meaning"),
    ({"stand_in": "file"}, "result of dpx.stand_in"),
    ({"per_cluster": 5}, "5 attributes for each cluster"),
    ({"method": "one-stage", "stand_in": "file"}, "no use with"),
    ({"method": "best"}, "method"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_input_is_refused_before_anything_is_paid(table, options, message):
    with pytest.raises(InputError, match=message):
        explained(table, **options)
    assert spent(table) == 0


def test_a_stand_in_without_the_columns_of_the_rule_is_refused(table):
    stand_in = dpx.stand_in(table, features=ATTRIBUTES, epsilon=1)
    before = spent(table)
    with pytest.raises(InputError, match="lacks 'group'"):
        explained(table, stand_in=stand_in)
    assert spent(table) == before


def test_too_many_clusters_are_refused_with_a_way_out(make_table):
    names = [str(i) for i in range(25)]
    many = Clustering.of(
        lambda rows: (rows["age"] // 4).astype(int).astype(str), labels=names, features=["age"], domain=DOMAIN,
        name="many", version="1",
    )  # fmt: skip
    table = make_table(people(300), domain=DOMAIN, relation="replace-one")
    with pytest.raises(InputError, match="too many to weigh"):
        explained(table, clustering=many)
    assert spent(table) == 0


def test_the_forecast_is_the_noise_of_a_count(table):
    forecast = dpx.plan(
        dpx.requests.Clusters(labels=LABELS, attributes=ATTRIBUTES, method="posterior"), table=table, epsilon=0.5
    )
    assert forecast.best.error == pytest.approx(explained(table)._noise.halfwidth(0.95))
