"""IMDB (500 words as 0 or 1) for `audit_records`: the reviews, an attacker who thinks, LIME, and highlighted words.

The black box is a logistic regression. The table has one review in five, as if each were there five times: 50,000 rows
in a fifth of the time. Explained are reviews that are not in it, and the thinking attacker learns from yet others.

Thinking   The exact explanation phi of z, on the ball with multiplier mu, solves (M + mu) phi - c - (z.phi) m = k z,
           with the weighted moments M, m, c of reviews x (second, first, with the score) and a number k. So M phi is a
           combination of c, m and phi, plus k times the words of z: the residual of a fit by least absolute values
           shows the words. M, m, c are much the same for all z; an attacker takes them from any other reviews. The sign
           of k goes with the prediction, which comes with an explanation. The attack is then linear, on these residuals
           and on phi, both times that sign.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track
from scipy.linalg.blas import ssyrk
from sklearn.linear_model import LogisticRegression

import dpexplain as dpx
from bench import scenes
from bench.audit_records import DELTA, EXACT, LIME, STEPS, Study, explain
from bench.local import algorithm_1, paper_sigma
from bench.private_models import Ours
from bench.scenes import Problem, Scene, stable
from bench.showcase import _plain as plain

SHARE = 5  # one review in so many
OURS = (0.1, 1.0, 10.0)
ROUNDS = 25
LISTED = 10  # words in an explanation of LIME, its default
SAMPLES = 1000
SHOWN = {
    "DPGD-Explain, no noise": None,
    "DPGD-Explain, epsilon 10": 10.0,
    "ours, epsilon 10": 10.0,
    "ours, epsilon 1": 1.0,
}


@dataclass(frozen=True)
class Reviews:
    """The black box and all reviews."""

    all: Scene  # its score is the black box's
    judge: LogisticRegression

    @classmethod
    def read(cls, options: Namespace) -> Reviews:
        scene = scenes.imdb(options.data)
        split = pd.read_parquet(options.data / "imdb_bow500.parquet", columns=["split"])["split"]
        learn = (split == "train").to_numpy()
        words = 60 if options.quick else len(scene.columns)
        columns, X = scene.columns[:words], scene.X[:, :words]
        judge = LogisticRegression(C=0.1, max_iter=1000).fit(X[learn], scene.f[learn])
        return cls(Scene("IMDB", columns, X, 2 * judge.predict_proba(X)[:, 1] - 1), judge)

    def part(self, first: int, step: int) -> Scene:
        return Scene("IMDB", self.all.columns, self.all.X[first::step], self.all.f[first::step])


def problems(scene: Scene) -> Callable[[np.ndarray], Problem]:
    """`Scene.problem` in single precision, with half of the products."""
    X, f = scene.X.astype(np.float32), scene.f

    def at(z: np.ndarray) -> Problem:
        D = X - z.astype(np.float32)
        a = stable(np.sqrt(np.einsum("ij,ij->i", D, D)))
        D *= np.sqrt(a).astype(np.float32)[:, None]
        upper = np.triu(ssyrk(1.0, D.T)).astype(np.float64)
        A = (upper + np.triu(upper, 1).T) / len(f)
        return Problem(
            A, (D.T @ (np.sqrt(a) * f).astype(np.float32)).astype(np.float64) / len(f), float(a @ f**2) / len(f)
        )

    return at


def thinking(scene: Scene, predictions: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The attacker's view of explanations, given the predictions of the records and other reviews."""
    X, mean = scene.X, scene.X.mean(axis=0)
    a = stable(np.sqrt(X.sum(axis=1) + mean.sum() - 2 * X @ mean))
    W = X * a[:, None]
    M, m, c = W.T @ X / len(X), W.mean(axis=0), W.T @ scene.f / len(X)
    sign = np.where(predictions >= 0, 1.0, -1.0)[:, None]

    def seen(phi: np.ndarray) -> np.ndarray:
        scale = np.maximum(abs(phi).max(axis=1, keepdims=True), 1e-300)
        known = np.stack(
            [np.broadcast_to(c / abs(c).max(), phi.shape), np.broadcast_to(m / m.max(), phi.shape), phi / scale], 2
        )
        y = (phi / scale) @ M
        rest = y
        for _ in range(ROUNDS):  # least absolute values by weighted least squares
            weight = 1 / np.maximum(abs(rest), 1e-3 * np.median(abs(rest), axis=1, keepdims=True) + 1e-300)
            square = np.einsum("nij,ni,nik->njk", known, weight, known)
            sides = np.einsum("nij,ni,ni->nj", known, weight, y)[:, :, None]
            rest = (
                y
                - (
                    known
                    @ np.linalg.solve(
                        square + 1e-12 * np.eye(3) * np.trace(square, axis1=1, axis2=2)[:, None, None], sides
                    )
                )[:, :, 0]
            )
        residual = rest / np.maximum(abs(rest).std(axis=1, keepdims=True), 1e-300)
        return np.hstack([residual * sign, phi * sign])

    return seen


def imdb(options: Namespace) -> Study:
    reviews = Reviews.read(options)
    table = reviews.part(0, 50 if options.quick else SHARE)
    others = reviews.part(1, SHARE)
    points = others.sample(56 if options.quick else 800)
    queries = others.X[points]
    domain = dpx.Domain({name: dpx.Categorical([0, 1]) for name in table.columns})
    records = pd.DataFrame(queries.astype(int), columns=table.columns)
    attacks = {
        "explanations, linear": np.asarray,
        "thinking, linear": thinking(reviews.part(2, 2 * SHARE), others.f[points]),
    }
    study = Study(
        "IMDB",
        table.rows * (1 if options.quick else SHARE),
        records,
        domain,
        (25,) if options.quick else (100, 250, 500),
        attacks,
    )
    explain(study, table, queries, problems(table), ours=(1.0,) if options.quick else OURS)
    study.phis[LIME, "inf"] = np.array([lime(z, reviews.judge, LISTED) for z in track(queries, description="LIME")])
    return study


def lime(z: np.ndarray, judge: LogisticRegression, listed: int | None) -> np.ndarray:
    """LIME's own fit for a bag of words: words of the review are left out at random, as its text explainer does."""
    from lime.lime_base import LimeBase  # pip install lime: for this benchmark only

    present = np.flatnonzero(z)
    random = np.random.default_rng(int(present.sum()))
    gone = random.integers(1, len(present) + 1, size=SAMPLES)[:, None]
    data = (random.random((SAMPLES, len(present))).argsort(axis=1) >= gone).astype(np.float64)
    data[0] = 1
    bags = np.zeros((SAMPLES, len(z)))
    bags[:, present] = data
    kept = data.sum(axis=1) / len(present)  # the cosine of a part of the words with all of them is its root
    base = LimeBase(lambda d: np.sqrt(np.exp(-(d**2) / 25**2)), random_state=0)
    found = base.explain_instance_with_data(
        data, judge.predict_proba(bags), 100 * (1 - np.sqrt(kept)), 1, listed or len(present), "highest_weights"
    )
    line = np.zeros(len(z))
    for feature, weight in found[1]:
        line[present[feature]] = weight
    return line


# Highlighted words ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Words:
    """Figures 11 and 12: a review with its words by each method, and how methods agree with LIME over many reviews."""

    text: str
    label: int
    values: dict[str, dict[str, float]]  # method, word: number
    agreement: dict[str, list[float]]  # method: one correlation with LIME for each review

    @property
    def content(self) -> dict[str, Any]:
        return {"reviews": len(next(iter(self.agreement.values()))), "summary": self.summary, "shown": self.values}

    @property
    def summary(self) -> dict[str, Any]:
        return {
            "correlation with LIME over the words of a review, mean": {
                name: round(float(np.mean(values)), 3) for name, values in self.agreement.items()
            }
        }


def words(options: Namespace) -> Words:
    """Short negative reviews with text, those with the plainest words first: one is shown, all count."""
    reviews = Reviews.read(options)
    table = reviews.part(0, 50 if options.quick else SHARE)
    problem_at, ours, random = problems(table), Ours(len(table.columns)), np.random.default_rng(5)
    texts = pd.read_parquet(options.data / "imdb_sample200_text.parquet")
    texts = texts[texts["label"] == 0]
    mild = ~texts["text"].str.lower().str.contains("worst|awful")
    texts = texts.assign(mild=mild, size=texts["text"].str.len()).sort_values(["mild", "size"])
    texts = texts.head(2 if options.quick else 60)
    agreement: dict[str, list[float]] = {}
    shown: dict[str, dict[str, float]] = {}
    names = [name[2:] for name in table.columns]
    for row in track(list(texts["row"]), description="words of reviews"):
        z = reviews.all.X[row]
        present, problem = np.flatnonzero(z), problem_at(z)
        found = {LIME: lime(z, reviews.judge, None), EXACT: problem.best}
        for name, epsilon in SHOWN.items():
            if name.startswith("ours"):
                found[name] = ours.explain(problem, 50_000, float(epsilon or 0), DELTA, random)
            else:
                sigma = 0.0 if epsilon is None else paper_sigma(50_000, STEPS, epsilon, DELTA)
                found[name] = algorithm_1(problem, sigma, STEPS, 1, random)[0]
        for name, phi in found.items():
            agreement.setdefault(name, []).append(float(np.corrcoef(phi[present], found[LIME][present])[0, 1]))
        shown = shown or {name: {names[i]: float(phi[i]) for i in present} for name, phi in found.items()}
    first = texts.iloc[0]
    return Words(plain(first["text"]), int(first["label"]), shown, agreement)
