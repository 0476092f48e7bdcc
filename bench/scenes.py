"""Tables for the benchmarks of local explanations: coordinates in [0, 1], a score in [-1, 1], and the exact answers.

The exact side is written on its own, in floats and without the product's step weights, so that the product is compared
with something else than itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import dpexplain as dpx

SCORE = "(score)"  # the model's answer, as a column: many explanations then cost one set of predictions


@dataclass(frozen=True)
class Scene:
    """X: one line of coordinates in [0, 1] for each row; f: the score of each row."""

    name: str
    columns: list[str]
    X: np.ndarray
    f: np.ndarray
    forest: RandomForestClassifier | None = None  # where the score is a forest's

    @property
    def rows(self) -> int:
        return len(self.f)

    @cached_property
    def domain(self) -> dpx.Domain:
        return dpx.Domain({**{name: dpx.Numeric(0, 1) for name in self.columns}, SCORE: dpx.Numeric(-1, 1)})

    def table(self, relation: str, budget: dpx.Budget) -> dpx.PrivateTable:
        frame = pd.DataFrame(self.X, columns=self.columns, copy=False).assign(**{SCORE: self.f})
        options = {"relation": relation, "ledger": "sqlite:///:memory:", "name": self.name}
        if relation == "add-remove":
            options["rows_hint"] = round(self.rows, -3)
        return dpx.PrivateTable(frame, domain=self.domain, budget=budget, **options)

    @property
    def model(self) -> dpx.Model:
        return dpx.Model(lambda rows: rows[SCORE], output=(-1, 1), features=[SCORE], name=self.name, version="bench")

    def sample(self, size: int, seed: int = 0) -> np.ndarray:
        """Numbers of rows to be explained."""
        return np.random.default_rng(seed).choice(self.rows, size, replace=False)

    def problem(self, z: np.ndarray) -> Problem:
        """The exact loss around z, from every row."""
        D = self.X - z
        a = stable(np.sqrt(np.einsum("ij,ij->i", D, D)))
        W = D * a[:, None]
        return Problem(W.T @ D / self.rows, W.T @ self.f / self.rows, float(a @ self.f**2) / self.rows)


def stable(u: np.ndarray) -> np.ndarray:
    """Equation 5 of the paper with c = 1."""
    return np.where(u <= (np.sqrt(3) - 1) / 2, 1.0, 1 / (2 * np.maximum(u, 0.1) * (u + 1)))


@dataclass(frozen=True)
class Problem:
    """L(phi) = phi.A phi - 2 b.phi + c over |phi| <= 1."""

    A: np.ndarray
    b: np.ndarray
    c: float

    def loss(self, phi: np.ndarray) -> np.ndarray:
        """Of one phi, or of each line of several."""
        return np.einsum("...i,ij,...j->...", phi, self.A, phi) - 2 * phi @ self.b + self.c

    @cached_property
    def best(self) -> np.ndarray:
        """The minimiser, by Newton's method on the multiplier of the ball."""
        w, V = np.linalg.eigh(self.A)
        w, t = np.maximum(w, 1e-12 * w.max()), V.T @ self.b
        mu = 0.0
        for _ in range(100):
            p = t / (w + mu)
            size = np.linalg.norm(p)
            if size <= 1 * (1 + 1e-12):
                break
            mu += (size - 1) * size**2 / (p @ (p / (w + mu)))
        return V @ (t / (w + mu))

    def excess(self, phi: np.ndarray) -> np.ndarray:
        """The approximation loss E(phi) of the paper."""
        return self.loss(phi) - self.loss(self.best)


def adult(data: Path, *, trees: int = 50, depth: int | None = 10) -> Scene:
    """32,561 training rows, 13 columns (categories as codes) scaled to [0, 1], a random forest's score."""
    frame = pd.read_parquet(data / "adult.parquet")
    frame = frame[frame["split"] == "train"].drop(columns=["split", "fnlwgt"])
    target = (frame.pop("income").astype(str) == ">50K").astype(int).to_numpy()
    return _scored("Adult", _scaled(frame), target, trees, depth)


def census(data: Path, *, trees: int = 50, depth: int | None = 10, resampled: int | None = None) -> Scene:
    """299,285 rows of the KDD census file, or that many drawn with replacement."""
    frame = pd.read_parquet(data / "census_income_kdd.parquet").drop(columns=["split", "instance_weight"])
    target = (frame.pop("income").astype(str).str.contains(">50K")).astype(int).to_numpy()
    scene = _scored("Census", _scaled(frame), target, trees, depth)
    if resampled is None:
        return scene
    drawn = np.random.default_rng(1).integers(scene.rows, size=resampled)
    return Scene(f"Census, resampled to {resampled:,}", scene.columns, scene.X[drawn], scene.f[drawn])


def imdb(data: Path) -> Scene:
    """50,000 reviews, 500 words as 0 or 1; the score is the true label, as in the paper."""
    frame = pd.read_parquet(data / "imdb_bow500.parquet")
    words = [name for name in frame.columns if name.startswith("w_")]
    return Scene("IMDB", words, frame[words].to_numpy(dtype=np.float64), 2.0 * frame["label"].to_numpy() - 1)


def faces(data: Path, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Pixels in [0, 1], one line for each image, and whether it is a happy one."""
    frame = pd.read_parquet(data / f"fer2013_happy_sad_{split}.parquet")
    pixels = np.frombuffer(b"".join(frame["pixels"]), "uint8").reshape(len(frame), -1) / 255
    return pixels, (frame["label"].astype(str) == "happy").to_numpy()


def _scaled(frame: pd.DataFrame) -> pd.DataFrame:
    codes = pd.DataFrame(
        {
            name: frame[name]
            if pd.api.types.is_numeric_dtype(frame[name])
            else frame[name].astype("category").cat.codes
            for name in frame.columns
        }
    ).astype(np.float64)
    return (codes - codes.min()) / (codes.max() - codes.min()).replace(0, 1)


def _scored(name: str, frame: pd.DataFrame, target: np.ndarray, trees: int, depth: int | None) -> Scene:
    X = frame.to_numpy()
    forest = RandomForestClassifier(trees, max_depth=depth, n_jobs=2, random_state=0).fit(X, target)
    return Scene(name, list(frame.columns), X, 2 * forest.predict_proba(X)[:, 1] - 1, forest)
