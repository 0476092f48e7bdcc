"""The experiments of section VII of paper 003 on Adult: five classifiers, with and without sex, ZIP codes, a person.

Private figures are releases of the product at epsilon 1 each, pure account, replace-one. Beside them stand figures
without noise: influences over the rows with values from random permutations of the columns, associations by counting.
"""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track

import dpexplain as dpx
from bench.influence_accuracy import Watching
from bench.influence_memory import Memory, numbered
from bench.influence_models import FITS, RICH, Classifier, People, fitted, model_of, people
from dpexplain.core.release import Door
from dpexplain.data.rows import Rows
from dpexplain.methods.influence.result import Influence
from dpexplain.methods.transparency.result import TransparencyReport

EPSILON, DRAWS, PERMUTATIONS = 1.0, 2, 4
PAPER_TOP = ("marital-status", "occupation", "relationship", "capital-gain")  # Fig. 2a
WOMEN = {"sex": "Female"}
CODES, SHARES = 20, tuple(round(0.1 * i, 1) for i in range(11))  # of ZIP codes; of them, those that discriminate
FOLLOWED = ("sex", "marital-status")
GAIN = 10_000


# Five classifiers -----------------------------------------------------------------------------------------------------


def reference(classifier: Classifier, people: People, permutations: int) -> dict[str, np.ndarray]:
    """Average influences and those on the disparity of women, without noise."""
    X, draw = classifier.encode(people.frame), np.random.default_rng(0)
    own, women = classifier.score(X) >= 0.5, (people.frame["sex"] == "Female").to_numpy()
    found = {"average": np.zeros(len(people.columns)), "disparity": np.zeros(len(people.columns))}
    for j, name in enumerate(people.columns):
        if name not in classifier.feature_names_in_:
            continue
        place = classifier.places(name)
        for _ in range(permutations):
            replaced = X.copy()
            replaced[:, place] = X[draw.permutation(len(X)), place]
            fall = own.astype(float) - (classifier.score(replaced) >= 0.5)
            found["average"][j] += np.abs(fall).mean() / permutations
            found["disparity"][j] += (fall[women].mean() - fall[~women].mean()) / permutations
    return found


def five(options: Namespace, people: People) -> dict[str, Any]:
    """For each classifier: both quantities with and without noise, how they stand to the paper, and the times."""
    found = {}
    kinds = ["logistic regression", "decision tree"] if options.quick else list(FITS)
    for kind in track(kinds, description="five classifiers"):
        start = time.perf_counter()
        classifier = fitted(people, kind)
        seconds = {"fit": time.perf_counter() - start}
        exact = reference(classifier, people, 1 if options.quick else PERMUTATIONS)
        table, model = people.table(), model_of(classifier, kind)
        start = time.perf_counter()
        average = dpx.influence(table, model, epsilon=EPSILON, samples=DRAWS)
        seconds["average"] = time.perf_counter() - start
        start = time.perf_counter()
        disparity = dpx.influence(table, model, "disparity", group=WOMEN, epsilon=EPSILON, samples=DRAWS)
        seconds["disparity"] = time.perf_counter() - start
        seconds["predictions of all rows, once"] = _once(model, people)
        seconds["other work on the machine, load"] = os.getloadavg()[0]
        found[kind] = {
            "accuracy on its rows": _short(np.mean((classifier.predict(people.frame) == RICH) == people.rich)),
            "average": _lines(people.columns, exact["average"], average),
            "disparity": _lines(people.columns, exact["disparity"], disparity),
            "in words": {"average": average.sentences(3), "disparity": disparity.sentences(3)},
            "against the paper": against_the_paper(people.columns, exact),
            "seconds": {name: round(s, 3) for name, s in seconds.items()},
        }
    return found


def _once(model: dpx.Model, people: People) -> float:
    """The seconds of one bare prediction for each row, rows already being in the form that the model takes."""
    columns = {
        name: pd.Categorical(people.frame[name], people.domain[name].categories)
        if isinstance(people.domain[name], dpx.Categorical)
        else people.frame[name]
        for name in people.columns
    }
    frame, seconds = pd.DataFrame(columns), []
    for _ in range(3):
        start = time.perf_counter()
        model.original.predict_proba(frame)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _lines(names: Sequence[str], exact: np.ndarray, private: Influence) -> dict[str, Any]:
    low, high = private.interval()
    return {
        name: {
            "exact": _short(exact[j]),
            "private": _short(private.values[j]),
            "interval": [_short(low[j]), _short(high[j])],
        }
        for j, name in enumerate(names)
    }


def against_the_paper(names: Sequence[str], exact: dict[str, np.ndarray]) -> dict[str, Any]:
    """Fig. 2a: four features on top, sex and race low. Fig. 2c: marital status strongest, most influences negative."""
    order = [names[i] for i in np.argsort(-exact["average"])]
    by_size = [names[i] for i in np.argsort(-np.abs(exact["disparity"]))]
    clear = exact["disparity"][np.abs(exact["disparity"]) > 0.002]
    return {
        "average, order": order,
        "places of the paper's first four": {name: order.index(name) + 1 for name in PAPER_TOP},
        "places of sex and race": {name: order.index(name) + 1 for name in ("sex", "race")},
        "disparity, strongest": by_size[:3],
        "disparity, marital status is the strongest": by_size[0] == "marital-status",
        "disparity, place of sex": by_size.index("sex") + 1,
        "disparity, negative among those beyond 0.002": [int((clear < 0).sum()), len(clear)],
    }


# With and without sex -------------------------------------------------------------------------------------------------


def associations(sex: np.ndarray, positive: np.ndarray) -> dict[str, float]:
    """Table II, exactly, of being a woman with a positive outcome; natural logarithms."""
    joint = np.array([[np.mean((sex == s) & (positive == p)) for p in (False, True)] for s in ("Male", "Female")])
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    women, rich = joint[1].sum(), joint[:, 1].sum()
    return {
        "mutual information": float((joint * np.log(np.maximum(joint, 1e-300) / apart)).sum()),
        "Jaccard index": float(joint[1, 1] / (women + joint[0, 1])),
        "correlation": float((joint[1, 1] - women * rich) / np.sqrt(women * (1 - women) * rich * (1 - rich))),
        "disparate impact ratio": float((joint[1, 1] / women) / (joint[0, 1] / (1 - women))),
    }


def table_2(options: Namespace, people: People) -> dict[str, Any]:
    """A: all columns. B: without sex. Association measures and the average influence of sex, exact and private."""
    found: dict[str, Any] = {}
    sex = people.frame["sex"].to_numpy()
    someone = people.frame[people.frame["sex"] == "Female"].iloc[0]
    kinds = ["decision tree"] if options.quick else list(FITS)
    for kind in track(kinds, description="with and without sex"):
        for letter, without in (("A", ()), ("B", ("sex",))):
            classifier = fitted(people, kind, without=without)
            positive = classifier.predict(people.frame) == RICH
            exact = associations(sex, positive)
            table, model, sampler = people.table(), model_of(classifier, kind), Watching()
            table.door = Door(table.door.account, sampler=sampler)
            report = dpx.transparency_report(
                table, model, someone, features=["sex"], aggregate="unary", epsilon=EPSILON
            )
            assert isinstance(report, TransparencyReport)
            measures = dict(zip(exact, _measures(report), strict=True))
            private = dpx.influence(table, model, features=["sex"], epsilon=EPSILON, samples=DRAWS)
            before_noise = float(sampler.exact[0]) / (private.output.levels * people.size)
            low, high = private.interval()
            found.setdefault(kind, {})[letter] = {
                "exact": {name: _short(value) for name, value in exact.items()},
                "private": measures,
                "QII before noise": before_noise,
                "QII, private": [_short(private.values[0]), _short(low[0]), _short(high[0])],
            }
    return found


def _measures(report: TransparencyReport) -> list[list[float]]:
    (a,) = report.associations
    found = (a.mutual_information, a.jaccard, a.correlation, a.disparate_impact)
    return [[_short(e.value), _short(e.low), _short(e.high)] for e in found]


# Artificial discrimination --------------------------------------------------------------------------------------------


def discrimination(options: Namespace, memory: Memory) -> dict[str, Any]:
    """Fig. 3a: women in a share f of the ZIP codes are always decided against."""
    people, draw = memory.people, np.random.default_rng(0)
    names = [f"zip-{code:02d}" for code in range(CODES)]
    column = dpx.Categorical(names)
    table = numbered(people, "replace-one", zip=(column, draw.choice(names, people.size)))
    sampler = Watching()
    table.door = Door(table.door.account, sampler=sampler)
    woman = people.domain["sex"].categories.index("Female")
    features = [*people.columns, "zip"]
    lines = []
    for share in track(SHARES[::5] if options.quick else SHARES, description="discrimination"):
        bad = round(share * CODES)

        def rule(rows: Rows, decided: np.ndarray, bad: int = bad) -> np.ndarray:
            return decided & ~((rows["sex"] == woman) & (rows["zip"] < bad))

        found = dpx.influence(table, memory.model(rule, ["zip"]), features=features, epsilon=EPSILON, seed=bad)
        exact = sampler.exact[: len(features)] / (found.output.levels * people.size)
        low, high = found.interval()
        lines.append(
            {
                "f": share,
                "private": {name: _short(v) for name, v in zip(features, found.values, strict=True)},
                "interval": {n: [_short(a), _short(b)] for n, a, b in zip(features, low, high, strict=True)},
                "before noise": {name: _short(v) for name, v in zip(features, exact, strict=True)},
            }
        )
    f = np.array([line["f"] for line in lines])
    linear = {}
    for name in FOLLOWED:
        for key in ("before noise", "private"):
            y = np.array([line[key][name] for line in lines])
            slope, start = np.polyfit(f, y, 1)
            rest = 1 - ((y - slope * f - start) ** 2).sum() / max(((y - y.mean()) ** 2).sum(), 1e-12)
            linear[f"{name}, {key}"] = {"slope": _short(slope), "at f = 0": _short(start), "R^2": round(float(rest), 4)}
    return {"lines": lines, "straight lines": linear}


# A person -------------------------------------------------------------------------------------------------------------


def chosen_person(data: Path, forest: Classifier) -> tuple[pd.Series, dict[str, Any]]:
    """Not in the table: capital gain above 10,000 and yet the lowest score of all such people of the test split."""
    others = people(data, "test")
    gain = others.frame["capital-gain"].to_numpy() > GAIN
    score = forest.predict_proba(others.frame)[:, 1]
    place = int(np.argmin(np.where(gain, score, 2.0)))
    facts = {
        "people of the test split with a gain above 10,000": int(gain.sum()),
        "rich among them": _short(others.rich[gain].mean()),
        "decided against": int((score[gain] < 0.5).sum()),
    }
    return others.frame.iloc[place], facts


def person(options: Namespace, people: People, forest: Classifier, row: pd.Series) -> tuple[dict[str, Any], Any]:
    """The report at epsilon 1, and how far it is from Shapley values by the exact marginals."""
    table, model = people.table(), model_of(forest, "random forest")
    start = time.perf_counter()
    report = dpx.transparency_report(table, model, row, epsilon=EPSILON)
    assert isinstance(report, TransparencyReport)
    first = time.perf_counter() - start
    start = time.perf_counter()
    dpx.transparency_report(table, model, row, marginals=report.marginals)
    later = time.perf_counter() - start
    exact = exact_shapley(forest, people, row, 200 if options.quick else 40_000)
    low, high = report.interval()
    content = {
        "person": {name: value if isinstance(value, str) else int(value) for name, value in row.items()},
        "headline": report.headline,
        "sentences": report.sentences(6),
        "only associated": report.only_associated[:4],
        "unlike others": report.unlike_others[:4],
        "influences": {
            name: {
                "private": _short(report.values[j]),
                "interval": [_short(low[j]), _short(high[j])],
                "by exact marginals": _short(exact[j]),
            }
            for j, name in enumerate(report.features)
        },
        "mean absolute difference": _short(np.abs(report.values - exact).mean()),
        "inside the interval": [int(((exact >= low) & (exact <= high)).sum()), len(exact)],
        "seconds": {"release and report": round(first, 2), "each further person": round(later, 2)},
    }
    return content, report


def exact_shapley(forest: Classifier, people: People, row: pd.Series, orders: int) -> np.ndarray:
    """By the exact marginals, an own plain walk through random orders with random values: no noise, no plan."""
    draw, M = np.random.default_rng(0), len(people.columns)
    sums = np.zeros(M)
    step = 500
    for _ in range(0, orders, step):
        order = np.argsort(draw.random((step, M)), axis=1)
        X = np.repeat(forest.encode(row.to_frame().T), step, axis=0)
        others = {
            name: forest.encode_column(name, people.frame[name].iloc[draw.integers(people.size, size=step)])
            for name in people.columns
        }
        before = forest.score(X) >= 0.5
        for place in range(M):
            for j, name in enumerate(people.columns):
                here = order[:, place] == j
                X[here, forest.places(name)] = others[name][here]
            after = forest.score(X) >= 0.5
            np.add.at(sums, order[:, place], before.astype(float) - after)
            before = after
    return sums / (-(-orders // step) * step)


def _short(value: Any) -> float:
    return round(float(value), 5)
