"""What a clustering may be, what is found out about it before anything is paid for, and where each row goes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans, MeanShift
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import dpexplain as dpx
from dpexplain.data import PublicRandom, Rows
from dpexplain.maths.surrogate import Space
from dpexplain.maths.surrogate.sketch import GRID
from dpexplain.models.clustering import Clustering, codes_of, numbered

DOMAIN = dpx.Domain(
    {"age": dpx.Numeric(0, 100, integer=True), "income": dpx.Numeric(0, 10), "sex": dpx.Categorical(["f", "m"])}
)
NUMBERS = dpx.Domain({"age": dpx.Numeric(0, 100), "income": dpx.Numeric(0, 10)})


def ages(rows: pd.DataFrame) -> np.ndarray:
    return np.where(rows["age"] < 30, "young", "old")


def rows_of(**columns) -> Rows:
    size = len(next(iter(columns.values())))
    return Rows(DOMAIN, {name: np.asarray(values) for name, values in columns.items()}, size)


@pytest.fixture(scope="module")
def sample() -> pd.DataFrame:
    """Public rows, to fit predictors on."""
    draw = np.random.default_rng(0)
    middle = draw.integers(3, size=600)
    return pd.DataFrame({"age": 20 + 30 * middle + draw.normal(0, 2, 600), "income": 2 + 3 * middle})


def test_a_function_and_what_it_does_not_declare():
    clustering = Clustering.of(ages, labels=["old"], domain=DOMAIN, name="ages", version="1")
    assert clustering.labels == ("old",)
    assert clustering.features == ("age", "income", "sex")
    rows = rows_of(age=[10.0, 30.0, 80.0], income=[1.0, 1.0, 1.0], sex=[0, 1, 0])
    np.testing.assert_array_equal(clustering.assign(rows), [1, 0, 0])  # 1 is "other"
    assert clustering.assign(rows).dtype == np.int64
    assert clustering.receipt is None
    assert clustering.cost is None
    assert "by the rule 'ages' 1" in clustering.describe()
    assert "outside any guarantee" in clustering.describe()
    assert repr(clustering) == "Clustering(old)"
    again = Clustering.of(ages, labels=["old"], domain=DOMAIN, name="ages", version="1")
    assert again.identity == clustering.identity
    assert Clustering.of(ages, labels=["old"], domain=DOMAIN).identity != clustering.identity


def test_predicates_the_first_that_holds_counts():
    predicates = {
        "young": lambda rows: rows["age"] < 30,
        "poor": lambda rows: rows["income"] < 2,
        "women": lambda rows: rows["sex"] == "f",
    }
    clustering = Clustering.of(predicates, domain=DOMAIN)
    assert clustering.labels == ("young", "poor", "women")
    rows = rows_of(age=[10.0, 50.0, 50.0, 50.0], income=[1.0, 1.0, 5.0, 5.0], sex=[0, 0, 0, 1])
    np.testing.assert_array_equal(clustering.assign(rows), [0, 1, 2, 3])


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    "estimator", [KMeans(3, n_init=2), GaussianMixture(3, random_state=0), MeanShift(bandwidth=12)], ids=str
)
def test_fitted_predictors_have_the_labels_of_their_clusters(sample, estimator, named):
    fitted = estimator.fit(sample if named else sample.to_numpy())
    clustering = Clustering.of(fitted, domain=NUMBERS if not named else DOMAIN)
    assert clustering.labels == ("0", "1", "2")
    assert clustering.features == ("age", "income")
    rows = PublicRandom(1).rows(NUMBERS, 200)
    columns = pd.DataFrame({name: rows[name] for name in ("age", "income")})
    expected = fitted.predict(columns if named else columns.to_numpy())
    np.testing.assert_array_equal(clustering.assign(rows), expected)


def test_pipelines_and_classifiers(sample):
    pipeline = make_pipeline(StandardScaler(), KMeans(3, n_init=2, random_state=0)).fit(sample)
    clustering = Clustering.of(pipeline, labels=["A", "B", "C"], domain=DOMAIN)
    assert clustering.labels == ("A", "B", "C")
    assert clustering.features == ("age", "income")
    rows = PublicRandom(1).rows(DOMAIN, 50)
    columns = pd.DataFrame({name: rows[name] for name in ("age", "income")})
    np.testing.assert_array_equal(clustering.assign(rows), pipeline.predict(columns))
    tree = DecisionTreeClassifier().fit(sample, np.where(sample["age"] < 40, "a", "b"))
    assert Clustering.of(tree, domain=DOMAIN).labels == ("a", "b")


def test_names_for_answers(sample):
    fitted = KMeans(3, n_init=2, random_state=0).fit(sample)
    some = Clustering.of(fitted, labels={2: "rich", 0: "poor"}, domain=DOMAIN)
    assert some.labels == ("rich", "poor")
    rows = PublicRandom(1).rows(DOMAIN, 50)
    found = fitted.predict(pd.DataFrame({name: rows[name] for name in ("age", "income")}))
    np.testing.assert_array_equal(some.assign(rows), np.select([found == 2, found == 0], [0, 1], 2))
    assert Clustering.of(fitted, labels=[0, 2], domain=DOMAIN).labels == ("0", "2")
    with pytest.raises(dpx.InputError, match="2 labels were given for 3 clusters"):
        Clustering.of(fitted, labels=["A", "B"], domain=DOMAIN)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1, 0]),
        [0, 1, 0],
        (0, 1),
        pd.Series([0, 1]),
        pd.Series(["a", "b"]),
        pd.DataFrame({"cluster": [0]}),
        pd.Categorical(["a", "b"]),
        "labels.csv",
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_labels_of_rows_are_refused_with_an_explanation(labels):
    with pytest.raises(dpx.InputError, match="computed from the rows, so they are private") as error:
        Clustering.of(labels, labels=[0, 1], domain=DOMAIN)
    assert "pass the rule itself" in error.value.hint


@pytest.mark.parametrize("estimator", [AgglomerativeClustering(2), DBSCAN()], ids=str)
def test_what_cannot_say_where_another_row_belongs_is_refused(sample, estimator):
    with pytest.raises(dpx.errors.ModelError, match="cannot say where another row belongs"):
        Clustering.of(estimator.fit(sample), labels=[0, 1], domain=DOMAIN)


counter = iter(range(10**9))


def failing(rows: pd.DataFrame):
    raise RuntimeError("no such file")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (failing, "the clustering fails on synthetic rows.*RuntimeError: no such file"),
        (lambda rows: rows["nothing"], "fails on synthetic rows"),
        (lambda rows: np.full((len(rows), 2), "old"), "one label for each row"),
        (lambda rows: "old", "one label for each row"),
        (lambda rows: np.where(rows["age"] < rows["age"].mean(), "old", "young"), "not always the same"),
        (lambda rows: np.full(len(rows), ["old", "young"][next(counter) % 2]), "not always the same"),
        (lambda rows: np.zeros(len(rows)), "no synthetic row into a declared cluster"),
        (KMeans(2), "the clustering fails on synthetic rows.*not fitted"),
        (KMeans, "is a class"),
        (42, "a clustering is a fitted predictor"),
        ({"old": lambda rows: rows["age"]}, "true or false for each row"),
        ({"old": 3}, "predicates are functions"),
        ({}, "predicates are functions"),
    ],
)
def test_unusable_rules_are_refused(function, message):
    labels = ["old", "young"] if not isinstance(function, dict) else None
    with pytest.raises(dpx.errors.ModelError, match=message):
        Clustering.of(function, labels=labels, domain=NUMBERS if hasattr(function, "predict") else DOMAIN)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "say which clusters there are"),
        ([], "1 to 100 clusters"),
        (["old", "old"], "a name of its own"),
        ([1, "1"], "a name of its own"),
        ([" "], "a name of its own"),
        (["old", "other"], "in none of the clusters"),
        ("old", "list of names"),
        (7, "list of names"),
        ([["old"]], "a text or a finite number"),
        ([float("nan")], "a text or a finite number"),
        (["NaN", "old"], "cannot be a label"),
        (["1", "01"], "stand for the same answer"),
        ([1, "true"], "stand for the same answer"),
        (list(range(101)), "1 to 100 clusters"),
        ({"old": "old people", "young": "old people"}, "a name of its own"),
    ],
    ids=str,
)
def test_unusable_labels_are_refused(labels, message):
    with pytest.raises(dpx.InputError, match=message):
        Clustering.of(ages, labels=labels, domain=DOMAIN)


def test_undeclared_columns_and_text_for_an_array():
    with pytest.raises(dpx.errors.ModelError, match="the clustering needs columns.*'height'"):
        Clustering.of(ages, labels=["old"], domain=DOMAIN, features=["height"])
    with pytest.raises(dpx.errors.ModelError, match="text categories"):
        Clustering.of(ages, labels=["old"], domain=DOMAIN, as_array=True)
    with pytest.raises(dpx.errors.ModelError, match="name and version"):
        Clustering.of(ages, labels=["old"], domain=DOMAIN, name="")


class Panic(BaseException):
    """What Rust-backed libraries raise: no Exception."""


def test_a_row_that_fails_is_in_other_and_changes_no_other_row():
    """Not known to the check: synthetic ages are whole numbers from 0 to 100, and 77.5 is none of them."""

    def picky(rows: pd.DataFrame) -> np.ndarray:
        if (rows["age"] == 77.5).any():
            rows["age"] = 0
            raise Panic("a row")
        return ages(rows)

    numbers = dpx.Domain({"age": dpx.Numeric(0, 100)})
    clustering = Clustering.of(picky, labels=["young", "old"], domain=numbers)
    age = np.array([10.0, 77.5, 50.0, 77.5, 29.0, 31.0])
    np.testing.assert_array_equal(clustering.assign(Rows(numbers, {"age": age}, 6)), [0, 2, 1, 2, 0, 1])
    assert clustering.assign(Rows(numbers, {"age": np.empty(0)}, 0)).shape == (0,)


def test_answers_are_compared_one_by_one():
    """A text among numbers turns its neighbours into texts, and that must change nothing."""

    def codes(answer, labels):
        return codes_of(answer, numbered(labels)).tolist()

    assert codes([0, "a", 1], [0, 1]) == [0, 2, 1]
    assert codes([0, None, 1.0, True, float("nan")], [0, 1]) == [0, 2, 1, 1, 2]
    assert codes(pd.Series(["a", None, "b"], dtype="category"), ["b", "a"]) == [1, 2, 0]
    assert codes(np.array(["a", "0"]), [0, "a"]) == [1, 0]
    assert codes(np.array([True, False]), [False, True]) == [1, 0]
    assert codes(np.array([[1], [2]]), [1]) == [[0], [1]]


ANSWERS = [1, 2, 1.0, 2.5, True, "1", "a", b"a", "a\0", "1\0", 0.1, np.float32(0.1), np.inf, None, np.nan, "nan"]
BESIDE = [7, 2.5, "b", 2j, True, None, np.nan, np.float32(0.5), b"b"]


@pytest.mark.parametrize("labels", [[1, 2, 2.5, 0.1, "a"], ["1", "2", "2.5", "0.1", "a"]], ids=["numbers", "texts"])
@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
def test_the_code_of_an_answer_does_not_depend_on_those_beside_it(answer, labels):
    numbers = numbered(labels)
    alone = {codes_of(np.array([answer]), numbers)[0], codes_of([answer], numbers)[0]}
    for other in BESIDE:
        for pair in (np.array([answer, other]), [answer, other], pd.Series([answer, other])):
            alone.add(codes_of(pair, numbers)[0])
    assert len(alone) == 1


def test_a_text_in_one_row_moves_no_other_row():
    """numpy makes texts of all answers of a block as soon as one of them is a text."""

    def mixed(rows: pd.DataFrame) -> np.ndarray:
        return np.array(["young" if age < 20 else 1 if age < 60 else 2 for age in rows["age"]])

    age = np.linspace(30, 90, 3000)
    newcomer = np.append(5.0, age[1:])
    for labels in (["young", "1", "2"], ["young", 1, 2]):
        clustering = Clustering.of(mixed, labels=labels, domain=NUMBERS, features=["age"])
        before, after = (clustering.assign(Rows(NUMBERS, {"age": column}, 3000)) for column in (age, newcomer))
        np.testing.assert_array_equal(before[1:], after[1:])
        np.testing.assert_array_equal(before, np.where(age < 60, 1, 2))
        assert after[0] == 0


def test_nearest_of_public_centres_ties_to_the_first():
    space = Space(DOMAIN, ("income", "sex"))
    centres = [[0, 0, 0], [GRID, 0, 0], [0, 0, 0]]
    clustering = Clustering.from_centres(space, np.array(centres), ["low", "high", "never"])
    rows = rows_of(income=[0.0, 5.0, 5.1, 10.0], sex=[0, 1, 0, 1])
    np.testing.assert_array_equal(clustering.assign(rows), [0, 0, 1, 1])
    assert clustering.features == ("income", "sex")
    assert "nearest of 3 centres" in clustering.describe()
    for wrong, message in (
        ([[0, 0]] * 3, "3 centres of 3 whole numbers"),
        (np.zeros((3, 3)), "3 centres of 3 whole numbers"),
        ([[0, 0, -1]] * 3, "outside the space"),
        ([[0, 0, GRID + 1]] * 3, "outside the space"),
    ):
        with pytest.raises(dpx.InputError, match=message):
            Clustering.from_centres(space, np.array(wrong), ["low", "high", "never"])


def test_a_clustering_is_for_one_declaration_of_its_columns():
    clustering = Clustering.of(ages, labels=["young", "old"], domain=DOMAIN, features=["age"])
    assert clustering.require(DOMAIN) is clustering
    assert Clustering.of(clustering, domain=DOMAIN) is clustering
    assert Clustering.of(clustering, labels=["young", "old"], domain=DOMAIN) is clustering
    with pytest.raises(dpx.InputError, match="not those of the clustering"):
        Clustering.of(clustering, labels=["young"], domain=DOMAIN)
    with pytest.raises(dpx.InputError, match="another declaration of 'age'"):
        Clustering.of(clustering, domain=dpx.Domain({"age": dpx.Numeric(0, 99)}))
    with pytest.raises(dpx.InputError, match="unknown feature 'age'"):
        clustering.require(dpx.Domain({"height": dpx.Numeric(0, 2)}))


def test_a_rule_is_always_asked_about_blocks_of_one_size():
    """Other numbers of rows take other paths in matrix products; so do the pieces left by a row that fails."""
    asked = []
    secret = min(set(range(101)) - set(PublicRandom(0).rows(DOMAIN, 128)["age"]))

    def rule(rows):
        asked.append(len(rows))
        if len(asked) > 20 and (rows["age"] == secret).any():
            raise RuntimeError("a secret row")
        return np.where(rows["age"] < 50, "young", "old")

    ready = Clustering.of(rule, domain=DOMAIN, labels=["young", "old"])
    asked[:] = [0] * 21
    for size in (1, 7, 2048, 2049, 5000):
        rows = PublicRandom(3).rows(DOMAIN, size)
        rows.columns["age"][:] = np.where(rows["age"] == secret, 50, rows["age"])
        whole = ready.assign(rows)
        rows.columns["age"][size // 2] = secret
        failed = ready.assign(rows)
        keep = np.arange(size) != size // 2
        np.testing.assert_array_equal(failed[keep], whole[keep])
        assert failed[size // 2] == 2  # other
    assert set(asked[21:]) == {2048}


def test_one_text_among_numbers_does_not_take_the_others_along():
    """`np.array` makes texts of all labels of a batch because of one row."""

    def rule(rows):
        return np.array(["unknown" if age == 90 else (1 if age < 50 else 2) for age in rows["age"]])

    ready = Clustering.of(rule, domain=DOMAIN, labels=[1, 2])
    rows = PublicRandom(4).rows(DOMAIN, 300)
    rows.columns["age"][:] = np.minimum(rows["age"], 89)
    whole = ready.assign(rows)
    rows.columns["age"][5] = 90
    keep = np.arange(300) != 5
    np.testing.assert_array_equal(ready.assign(rows)[keep], whole[keep])


@pytest.mark.parametrize("labels", [[1, True], [1, 1.0]])
def test_equal_labels_are_refused(labels):
    with pytest.raises(dpx.InputError, match="equal"):
        Clustering.of(lambda rows: rows["age"] > 3, domain=DOMAIN, labels=labels)
