"""dp_kmeans: refusals before payment, centres inside the domain, files and back, forecasts that keep their word."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpexplain as dpx
from clustered import setting
from dpexplain.core.budget import pure
from dpexplain.core.release import Door
from dpexplain.data import Rows
from dpexplain.errors import InputError
from dpexplain.maths import lloyd
from dpexplain.maths.lloyd import GRID, OWN
from dpexplain.methods.kmeans import release as kmeans
from dpexplain.methods.kmeans.release import dp_kmeans
from dpexplain.methods.kmeans.result import ClusterCentres
from dpexplain.methods.registry import request_from_json
from dpexplain.models.clustering import Clustering
from dpexplain.render.plots import figure_of
from dpexplain.requests import KMeans
from examples import DOMAIN
from stubs import ADD_REMOVE, BOTH, FreeAccount

pytestmark = pytest.mark.usefixtures("sketched_pictures")

FEW = dpx.Domain({"flag": dpx.Categorical([0, 1]), "count": dpx.Numeric(0, 2, integer=True)})
SOME = {"age": 24, "income": 10.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": ["sex"]}, "3 clusters were asked for, but the domain has 2 different points"),
        ({"labels": ["a", "b"]}, "2 labels were given for 3 clusters"),
        ({"labels": [0, 1, 2]}, "labels must be a list of names, one for each cluster"),
        ({"labels": ["a", "a", "b"]}, "a name of its own"),
        ({"labels": ["a", "other", "b"]}, "in none of the clusters"),
        ({"features": ["age", ["sex"]]}, "features must be a list of names"),
        ({"start": pd.DataFrame([SOME] * 3)}, 'start must be "marginals", "domain", or a list of k records'),
        ({"start": [SOME]}, "1 records to start from were given for 3 clusters"),
        ({"start": [SOME, SOME, {"age": 24}]}, "no value for 'income'"),
        ({"start": [SOME, SOME, {"age": 99, "income": 1}]}, "outside the declared range"),
        ({"epsilon": 1e-14}, "drown every number"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_is_refused_before_anything_is_paid(make_table, frame, arguments, message):
    table = make_table(frame)
    with pytest.raises(dpx.InputError, match=message):
        dp_kmeans(table, **{"k": 3, "epsilon": 1, **arguments})
    assert table.ledger.statement(table.name).spent.amount == 0


def test_the_request_allows_what_the_rounds_can_do():
    for name, most in (("k", lloyd.MOST_CLUSTERS), ("rounds", lloyd.MOST_ROUNDS)):
        KMeans(**{"k": 2, name: most})
        with pytest.raises(dpx.InputError, match=f"{name} must be"):
            KMeans(**{"k": 2, name: most + 1})


@pytest.mark.parametrize("start", [[[1, 2], [3, 4]], ([1, 2], [3, 4]), np.array([[1, 2], [3, 4]])])
def test_a_request_there_and_back(start):
    request = KMeans(k=2, start=start, labels=["x", "y"], seed=3)
    assert request_from_json(json.loads(json.dumps(request.to_json()))).to_json() == request.to_json()


@pytest.mark.parametrize("given", [["age", 4321], pd.Series([4321, 1]), pd.DataFrame({"age": [4321]}), [[4321.0]]])
@pytest.mark.parametrize("option", ["features", "labels", "k", "rounds"])
def test_errors_about_options_never_show_what_may_be_rows(option, given):
    with pytest.raises(dpx.InputError, match=f"{option} must be") as error:
        KMeans(**{"k": 2, option: given})
    assert "4321" not in str(error.value)


def test_numeric_features_by_default_and_all_where_there_are_none(make_table, frame):
    table = make_table(frame)
    assert dp_kmeans(table, 3, epsilon=1).features == ("age", "income")
    kinds = dpx.Domain({"sex": DOMAIN["sex"]})
    clustering = dp_kmeans(make_table(frame, domain=kinds), 2, epsilon=1)
    assert clustering.features == ("sex",)
    assert clustering.result.space.names == ["sex=Female", "sex=Male"]


@pytest.mark.parametrize("start", ["marginals", "domain"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("budget", [dpx.Budget(10), dpx.Budget(10, 1e-6)], ids=["pure", "zcdp"])
@pytest.mark.parametrize("epsilon", [0.01, 1])
def test_centres_never_leave_the_domain(make_table, frame, budget, relation, start, epsilon):
    """Also where noise is all there is."""
    table = make_table(frame, relation=relation, budget=budget)
    result = dp_kmeans(table, 4, ["age", "sex", "income"], epsilon=epsilon, rounds=2, start=start).result
    age, female, male, income = result.centres.T
    assert ((age >= 0) & (age <= GRID) & (income >= 0) & (income <= GRID)).all()
    assert ((female >= 0) & (male >= 0) & (female + male <= OWN)).all()
    frame = result.to_frame()
    assert ((frame["low"] <= frame["centre"]) & (frame["centre"] <= frame["high"])).all()
    ages = frame[frame["coordinate"] == "age"]
    assert ages["low"].min() >= 20
    assert ages["high"].max() <= 29
    shares = frame[frame["coordinate"].str.startswith("sex=")]
    assert shares["low"].min() >= 0
    assert shares["high"].max() <= 1


@pytest.mark.parametrize("rows", [0, 1])
def test_nearly_empty_tables_are_tables_like_any_other(make_table, frame, rows):
    table = make_table(frame.head(rows), relation="add-remove")
    clustering = dp_kmeans(table, 3, epsilon=1)
    assert len(clustering.labels) == 3
    assert np.isfinite(clustering.result.values).all()


def test_a_cluster_without_rows_keeps_its_centre(make_table, frame):
    start = [{"age": 20, "income": 0.0}, {"age": 29, "income": 100.0}, {"age": 20, "income": 0.0}]
    table = make_table(frame, exact=True, budget=dpx.Budget(1_000))
    result = dp_kmeans(table, 3, epsilon=1_000, start=start, rounds=1).result
    assert result.centres[2].tolist() == [0, 0]  # the first of two equal ones took all rows
    assert result.rows[2] == 0
    low, high = result.interval()
    assert (low[4], high[4], low[5], high[5]) == (20, 29, 0, 100)  # nothing is known about it


def test_the_clustering_assigns_to_the_nearest_released_centre(make_table, frame):
    clustering = dp_kmeans(make_table(frame, exact=True), 4, ["age", "sex", "income"], epsilon=2, labels=list("abcd"))
    assert clustering.labels == ("a", "b", "c", "d")
    sex = (frame["sex"] == "Male").to_numpy().astype(np.int32)
    rows = Rows(DOMAIN, {"age": frame["age"].to_numpy(float), "sex": sex, "income": frame["income"].to_numpy()}, 400)
    own = np.sqrt(0.5) * np.eye(2)[sex]
    places = np.column_stack([(frame["age"] - 20) / 9, own, frame["income"] / 100])
    away = ((places[:, None] - clustering.result.centres[None] / GRID) ** 2).sum(axis=2)
    found = clustering.assign(rows)
    assert (away[np.arange(400), found] <= away.min(axis=1) + 1e-4).all()
    assert len(set(found)) > 1
    one_by_one = [clustering.assign(rows.take(slice(i, i + 1)))[0] for i in range(60)]
    assert found[:60].tolist() == one_by_one


def test_receipt_price_and_replay(make_table, frame):
    table = make_table(frame, relation="add-remove", unit=dpx.Unit("person", 3))
    clustering = dp_kmeans(table, 3, epsilon=1)
    assert clustering.cost == pure(1)
    assert clustering.receipt.entry.account == table.name
    for words in ("epsilon = 1 (pure)", "at most 3) added or removed", "the number of rounds"):
        assert words in clustering.receipt.guarantee
    assert "Released with epsilon = 1 (pure)" in clustering.describe()
    again = dp_kmeans(table, 3, epsilon=1, labels=["x", "y", "z"])
    assert again.receipt.replayed  # other names are free
    assert again.result.values.tolist() == clustering.result.values.tolist()
    assert table.ledger.statement(table.name).spent.amount == 1
    dpx.verify(clustering.result, table.ledger)
    assert clustering.identity != again.identity
    assert dp_kmeans(table, 3, epsilon=1).identity == clustering.identity


def test_round_trip_through_a_file(make_table, frame, tmp_path):
    clustering = dp_kmeans(make_table(frame), 3, ["age", "sex"], epsilon=1, labels=["x", "y", "z"])
    path = tmp_path / "centres.json"
    again = dpx.from_json(clustering.result.to_json(path))
    assert again == clustering.result == dpx.from_json(path)
    made = Clustering.of(again, domain=DOMAIN)
    assert made.identity == clustering.identity
    assert made.labels == ("x", "y", "z")
    assert Clustering.of(again, domain=DOMAIN, labels=["1", "2", "3"]).labels == ("1", "2", "3")
    with pytest.raises(dpx.InputError, match="another declaration of 'age'"):
        Clustering.of(again, domain=dpx.Domain({**DOMAIN, "age": dpx.Numeric(0, 200)}))
    assert len(figure_of(again).axes[0].get_yticklabels()) == 3
    assert again._repr_html_().count('role="img"') == 1


@pytest.mark.parametrize(
    "alter",
    [
        lambda d: d["view"].update(labels=["x", "y"]),
        lambda d: d["view"].update(labels=["x", "x", "y"]),
        lambda d: d["view"].update(labels="xyz"),
        lambda d: d["released"]["parts"].pop("survey"),
        lambda d: d["released"]["parts"]["round-1"]["values"].pop(),
        lambda d: d["released"]["parts"]["round-1"]["values"].__setitem__(0, 10**9),
        lambda d: d["receipt"]["request"]["spec"]["lloyd"].update(rounds=0),
        lambda d: d["receipt"]["request"]["spec"]["lloyd"].update(k=4),
        lambda d: d["receipt"]["request"]["spec"]["lloyd"].update(cells=2),
        lambda d: d["receipt"]["request"]["spec"]["lloyd"].update(weight=0),
        lambda d: d["receipt"]["request"]["spec"]["lloyd"].update(start=[[0, 0]]),
        lambda d: d["receipt"]["request"]["spec"]["lloyd"].update(seed=10**30),
        lambda d: d["values"].__setitem__(0, 1.0),
    ],
)
def test_altered_files_are_refused_in_words(make_table, frame, alter):
    document = json.loads(dp_kmeans(make_table(frame), 3, epsilon=1, rounds=1).result.to_json())
    alter(document)
    with pytest.raises((dpx.InputError, dpx.errors.VerificationError)):
        dpx.from_json(json.dumps(document))


def test_what_is_released_is_the_answers_and_nothing_else(make_table, frame):
    table = make_table(frame, relation="add-remove")
    document = json.loads(dp_kmeans(table, 3, epsilon=1, rounds=2).result.to_json())
    assert set(document["released"]["parts"]) == {"marginals", "survey", "round-1", "round-2"}
    assert document["receipt"]["request"]["table"]["rows"] is None
    start = [{"age": 20, "income": 0}, {"age": 29, "income": 100}]
    given = dp_kmeans(table, 2, epsilon=1, rounds=2, start=start).result
    assert set(given.released["parts"]) == {"round-1", "round-2"}


RUNS = 200


@pytest.mark.drawn(1e-5)
@pytest.mark.long
def test_intervals_cover_the_exact_means(make_table, frame):
    """200 releases at level 0.8: fewer covered means than the binomial allows with probability 1e-6 is a failure."""
    table = make_table(frame, relation="add-remove")
    table.door = Door(FreeAccount(table.budget, table.neighbours, keep=False))
    start = [{"income": 20.0, "sex": "Female"}, {"income": 80.0, "sex": "Female"}]
    mine = frame[frame["income"] < 50]
    exact = mine["income"].mean(), (mine["sex"] == "Male").mean()
    covered = np.zeros(2)
    for _ in range(RUNS):
        result = dp_kmeans(table, 2, ["income", "sex"], epsilon=2, start=start, rounds=1).result
        low, high = result.interval(0.8)
        covered += [low[0] <= exact[0] <= high[0], low[2] <= exact[1] <= high[2]]
    assert (covered >= binom.ppf(1e-6, RUNS, 0.8)).all()
    for level in (0, 1, "x"):
        with pytest.raises(dpx.InputError, match="confidence level"):
            result.interval(level)


@pytest.mark.parametrize("neighbours", BOTH, ids=lambda n: n.relation.value)
def test_more_rows_more_rounds(neighbours):
    few, many = (kmeans.resolve(KMeans(k=5), setting(DOMAIN, neighbours, n), pure(1)) for n in (1_000, 1_000_000))
    assert few.lloyd.rounds < many.lloyd.rounds
    unknown = kmeans.resolve(KMeans(k=5), setting(DOMAIN, neighbours), pure(1))
    assert few.lloyd.rounds <= unknown.lloyd.rounds <= many.lloyd.rounds


def test_the_weight_of_counts_is_near_the_best_by_hand():
    """Su et al.: counts and sums of n features share an epsilon best as (4 n offset^2)^(1/3) to n."""
    domain = dpx.Domain({f"x{i}": dpx.Numeric(0, 1) for i in range(27)})
    spec = kmeans.resolve(KMeans(k=3), setting(domain, ADD_REMOVE, 1_000), pure(1))
    assert spec.lloyd.weight / 2**15 == pytest.approx((4 * 27 * kmeans.OFFSET**2) ** (1 / 3), rel=0.2)


def test_the_outlook_tells_the_error_of_a_centre():
    request = KMeans(k=3, rounds=2, features=["income"])
    one, ten = (kmeans.outlook(request, setting(DOMAIN, ADD_REMOVE, 30_000), pure(epsilon)) for epsilon in (1, 10))
    assert one.points == 3
    assert one.law == "discrete-laplace"
    assert 0 < one.std < one.error < one.band
    assert ten.error == pytest.approx(one.error / 10, rel=0.01)


def test_the_noised_stages_separate_the_table_from_the_centres():
    diagram = kmeans.diagram()
    assert diagram.noised in diagram.privacy_enabling_sets()


def test_more_clusters_than_points():
    few = setting(FEW, ADD_REMOVE)
    assert kmeans.resolve(KMeans(k=6, features=["flag", "count"]), few, pure(1)).lloyd.k == 6
    with pytest.raises(dpx.InputError, match="6 different points"):
        kmeans.resolve(KMeans(k=7, features=["flag", "count"]), few, pure(1))


def test_many_coordinates_fit_on_one_plot(make_table):
    domain = dpx.Domain({f"x{i}": dpx.Numeric(0, 1) for i in range(40)})
    rows = pd.DataFrame(np.random.default_rng(0).uniform(size=(50, 40)), columns=list(domain))
    result = dp_kmeans(make_table(rows, domain=domain), 12, epsilon=1, rounds=1).result
    assert isinstance(result, ClusterCentres)
    ax = figure_of(result).axes[0]
    assert len(ax.get_yticklabels()) == 30
    assert len(ax.get_legend().get_texts()) == 12


# From a stand-in ------------------------------------------------------------------------------------------------------


def three_groups(n=2_000):
    draw = np.random.default_rng(1)
    middle = np.array([[0.2, 0.2], [0.8, 0.3], [0.5, 0.9]])[draw.integers(3, size=n)]
    x, y = np.clip(middle + draw.normal(0, 0.04, (n, 2)), 0, 1).T
    return pd.DataFrame({"x": x, "y": y})


PLANE = dpx.Domain({"x": dpx.Numeric(0, 1), "y": dpx.Numeric(0, 1)})


@pytest.fixture
def plane(make_table):
    return make_table(three_groups(), domain=PLANE, relation="replace-one", budget=dpx.Budget(100))


def test_rounds_start_from_the_centres_of_synthetic_rows(plane):
    """By a tree of pairs they are near the groups before any round; no survey and no histograms are paid for."""
    stand_in = dpx.stand_in(plane, grade="tree", epsilon=20)
    found = dpx.dp_kmeans(plane, 3, epsilon=5, stand_in=stand_in, rounds=1).result
    assert set(found.released["parts"]) == {"round-1"}
    assert found.receipt.request["builds_on"][0]["entry"] == stand_in.entry
    start = np.array(found.lloyd.start) / GRID
    for centre in ([0.2, 0.2], [0.8, 0.3], [0.5, 0.9]):
        assert np.abs(start - centre).max(axis=1).min() < 0.1
        assert np.abs(found.values.reshape(3, 2) - centre).max(axis=1).min() < 0.06
    again = dpx.dp_kmeans(plane, 3, epsilon=5, stand_in=stand_in, rounds=1).result
    assert again.receipt.replayed


def test_without_a_stand_in_nothing_changes(plane):
    parts = set(dpx.dp_kmeans(plane, 3, epsilon=5, rounds=1).result.released["parts"])
    assert parts == {"marginals", "survey", "round-1"}


def test_a_stand_in_that_cannot_be_used_is_refused_before_anything_is_paid(plane, make_table):
    of_x = dpx.stand_in(plane, features=["x"], epsilon=1)
    other = make_table(three_groups(), domain=PLANE, relation="replace-one", name="another")
    elsewhere = dpx.stand_in(other, epsilon=1)
    before = plane.ledger.statement(plane.name).spent.amount
    for stand_in, options, message in (
        (of_x, {}, "lacks 'y'"),
        (elsewhere, {}, "another table"),
        ("rows.csv", {}, "result of dpx.stand_in"),
        (dpx.stand_in(plane, epsilon=1), {"start": "domain"}, "one or the other"),
    ):
        before = plane.ledger.statement(plane.name).spent.amount
        with pytest.raises(InputError, match=message):
            dpx.dp_kmeans(plane, 3, epsilon=5, stand_in=stand_in, **options)
        assert plane.ledger.statement(plane.name).spent.amount == before
