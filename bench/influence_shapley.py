"""Shapley values of one person over 13 features: how many model evaluations for which Monte Carlo error.

The game has one fixed background of 100 records, drawn from released marginals, which every method gets. Its exact
values come from all 2^13 sets: 819,200 evaluations, whose answers are remembered, so that the methods' own evaluations
cost nothing; they are counted. Ours are the orders of `games.orders_plan`: each order and its reverse meet one record
of the background, the next pair another one. `shap` meets all records in each order, or set: 100, or 10 of them.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track

import dpexplain as dpx
from bench.influence_models import Classifier, People, model_of
from dpexplain.maths.games import exact_plan, orders_plan

BACKGROUND, EPSILON = 100, 1.0
AT_ONCE = 2**14
ORDERS = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
PERMUTATIONS = (1, 2, 4, 8, 16, 32)
COALITIONS = (64, 128, 256, 512, 1024, 2048, 4096)
TARGETS = {"class": (0.03, 0.02, 0.01, 0.005), "score": (0.005, 0.003, 0.002, 0.001)}
SOME, FEW = 10, ", 10 of the records"
OURS, PERMUTATION, KERNEL = "ours", "shap.PermutationExplainer", "shap.KernelExplainer"


class Game:
    """A person, a background, and the remembered score of every mixture of the two."""

    def __init__(self, classifier: Classifier, person: pd.Series, background: pd.DataFrame) -> None:
        self.names = list(classifier.feature_names_in_)
        self.M, self.B = len(self.names), len(background)
        self.own, self.others = self._numbers(classifier, person.to_frame().T), self._numbers(classifier, background)
        # a row is known by one whole number; mixtures of one person and 100 records do not meet by chance
        self._code = np.random.default_rng(0).integers(1, 2**62, size=self.M)
        rows = np.concatenate([self.mixed(mask) for mask in range(2**self.M)])
        parts = np.array_split(rows, max(1, len(rows) // AT_ONCE))
        answers = [classifier.score(self._encoded(classifier, part)) for part in track(parts, description="all sets")]
        self.table = np.concatenate(answers).reshape(2**self.M, self.B)
        keys = self._key(rows)
        order = np.argsort(keys, kind="stable")
        self._keys, self._answers = keys[order], self.table.ravel()[order]
        self.asked = 0

    @staticmethod
    def _numbers(classifier: Classifier, frame: pd.DataFrame) -> np.ndarray:
        columns = []
        for name in classifier.feature_names_in_:
            column = classifier.domain[name]
            categorical = isinstance(column, dpx.Categorical)
            columns.append(pd.Categorical(frame[name], column.categories).codes if categorical else frame[name])
        return np.column_stack(columns).astype(np.float64)

    @staticmethod
    def _encoded(classifier: Classifier, rows: np.ndarray) -> np.ndarray:
        parts = []
        for j, name in enumerate(classifier.feature_names_in_):
            column = classifier.domain[name]
            categorical = isinstance(column, dpx.Categorical)
            size = len(column.categories) if categorical else 0
            parts.append(np.eye(size, dtype=np.float32)[rows[:, j].astype(int)] if categorical else rows[:, j : j + 1])
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def mixed(self, mask: int) -> np.ndarray:
        """The person with the features in `mask` taken from each record of the background."""
        inside = (mask >> np.arange(self.M)) & 1 == 1
        return np.where(inside, self.others, self.own)

    def _key(self, rows: np.ndarray) -> np.ndarray:
        return (rows.astype(np.int64) * self._code).sum(axis=1)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """The model, as `shap` sees it."""
        self.asked += len(rows)
        place = np.searchsorted(self._keys, self._key(np.asarray(rows)))
        return self._answers[place]

    def decisions(self, rows: np.ndarray) -> np.ndarray:
        return (self.scores(rows) >= 0.5).astype(np.float64)


class Methods:
    """Shapley values of the game by each method, and the number of evaluations they took."""

    def __init__(self, game: Game, outcome: str) -> None:
        self.game, self.outcome = game, outcome
        self.call = game.decisions if outcome == "class" else game.scores
        answers = (game.table >= 0.5).astype(np.float64) if outcome == "class" else game.table
        plan = exact_plan(game.M, "shapley", 1)
        self._answers = answers
        self.exact = plan.weights @ answers.mean(axis=1)[plan.masks] / plan.denominator

    def ours(self, orders: int, seed: int) -> tuple[np.ndarray, int]:
        game = self.game
        plan = orders_plan(game.M, orders, min(-(-orders // 2), game.B), seed)
        records = np.random.default_rng(seed).permutation(game.B)
        return plan.weights @ self._answers[plan.masks, records[plan.draws]] / plan.denominator, plan.asked + 1

    def _records(self, some: int | None, seed: int) -> np.ndarray:
        """The background, or some of its records."""
        chosen = np.random.default_rng(seed).permutation(self.game.B)[:some]
        return self.game.others[chosen]

    def permutation(self, permutations: int, seed: int, some: int | None = None) -> tuple[np.ndarray, int]:
        import shap

        self.game.asked, records = 0, self._records(some, seed)
        masker = shap.maskers.Independent(records, max_samples=len(records))
        explainer = shap.PermutationExplainer(self.call, masker, seed=seed)
        found = explainer(self.game.own, max_evals=(2 * self.game.M + 1) * permutations, silent=True)
        return np.asarray(found.values[0]), self.game.asked

    def kernel(self, coalitions: int, seed: int, some: int | None = None) -> tuple[np.ndarray, int]:
        import shap

        self.game.asked = 0
        np.random.seed(seed)  # shap draws with it
        explainer = shap.KernelExplainer(self.call, self._records(some, seed))
        found = explainer.shap_values(self.game.own, nsamples=coalitions, l1_reg=False, silent=True)
        return np.asarray(found).reshape(-1), self.game.asked

    def by_shap_exact(self) -> np.ndarray:
        """All sets by shap's own enumeration."""
        import shap

        masker = shap.maskers.Independent(self.game.others, max_samples=self.game.B)
        found = shap.ExactExplainer(self.call, masker)(self.game.own, max_evals=2**self.game.M)
        return np.asarray(found.values[0])

    def curve(self, method: Callable[[int, int], tuple[np.ndarray, int]], sizes: Sequence[int], times: int) -> Any:
        """(evaluations, mean absolute error) for each size."""
        lines = []
        for size in sizes:
            runs = [method(size, seed) for seed in range(times)]
            errors = [float(np.abs(values - self.exact).mean()) for values, _ in runs]
            lines.append(
                {
                    "size": size,
                    "evaluations": float(np.mean([asked for _, asked in runs])),
                    "error": float(np.mean(errors)),
                    "standard error": float(np.std(errors) / np.sqrt(times)),
                }
            )
        return lines


def needed(curve: Sequence[dict[str, float]], error: float) -> float | None:
    """The evaluations for an error, between two sizes on straight lines in logarithms; None beyond the curve."""
    x = np.log([line["evaluations"] for line in curve])
    y = np.log([max(line["error"], 1e-12) for line in curve])
    y = np.minimum.accumulate(y)
    if y[-1] > np.log(error):
        return None
    if y[0] <= np.log(error):  # the least that the method can do
        return float(np.exp(x[0]))
    after = int(np.argmax(y <= np.log(error)))
    part = (y[after - 1] - np.log(error)) / (y[after - 1] - y[after])
    return float(np.exp(x[after - 1] + part * (x[after] - x[after - 1])))


def summary(content: dict[str, Any]) -> dict[str, Any]:
    """One table: evaluations for an error, by each method."""
    found: dict[str, Any] = {"all sets": content["exact, evaluations"]}
    for outcome in ("class", "score"):
        found[outcome] = {
            f"error {error:g}": {
                method: None if (asked := needed(curve, error)) is None else float(f"{asked:.3g}")
                for method, curve in content[outcome]["curves"].items()
            }
            for error in TARGETS[outcome]
        }
    return found


def background_of(people: People, classifier: Classifier, person: pd.Series) -> pd.DataFrame:
    """Records with independent columns, drawn from the marginals that a report on the person is made of."""
    model = model_of(classifier, "random forest")
    marginals = dpx.transparency_report(people.table(), model, person, epsilon=EPSILON).marginals
    draw = np.random.default_rng(0)
    found = {}
    for name in classifier.feature_names_in_:
        shares, rug, column = marginals.shares(name), marginals.histogram(name), people.domain[name]
        cell = draw.choice(len(shares), BACKGROUND, p=shares)
        if isinstance(column, dpx.Categorical):
            found[name] = np.array(column.categories)[cell]
        else:
            edges = np.asarray(rug.partition.edges)
            found[name] = np.rint(np.clip(edges[cell] + (edges[cell + 1] - edges[cell]) * draw.random(BACKGROUND),
                                          column.low, column.high)).astype(np.int64)  # fmt: skip
    return pd.DataFrame(found)


def study(options: Namespace, people: People, forest: Classifier, person: pd.Series) -> dict[str, Any]:
    quick = options.quick
    times = 4 if quick else 25
    permutations, coalitions = (PERMUTATIONS[:3], COALITIONS[:3]) if quick else (PERMUTATIONS, COALITIONS)
    background = background_of(people, forest, person)
    game = Game(forest, person, background.iloc[:SOME] if quick else background)
    found: dict[str, Any] = {"features": game.M, "background": game.B, "exact, evaluations": int(game.table.size)}
    if not quick:
        methods = Methods(game, "class")
        found["exact, largest difference to shap.ExactExplainer"] = float(
            np.abs(methods.by_shap_exact() - methods.exact).max()
        )
    for outcome in ("class", "score"):
        methods = Methods(game, outcome)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[outcome] = {
                "exact": dict(zip(game.names, methods.exact.round(5).tolist(), strict=True)),
                "curves": {
                    OURS: methods.curve(methods.ours, ORDERS[:6] if quick else ORDERS, times),
                    PERMUTATION: methods.curve(methods.permutation, permutations, times),
                    KERNEL: methods.curve(methods.kernel, coalitions, times),
                    f"{PERMUTATION}{FEW}": methods.curve(partial(methods.permutation, some=SOME), permutations, times),
                    f"{KERNEL}{FEW}": methods.curve(partial(methods.kernel, some=SOME), coalitions, times),
                },
            }
    return found
