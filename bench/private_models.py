"""Explanations of models that were trained with DP-SGD: section 6.3 of paper 001 (Figures 6, 7 and 8).

Networks with one hidden layer are trained here in numpy (Poisson samples, clipped gradients of single examples,
Gaussian noise; the noise multiplier comes from dp-accounting) on the reviews of IMDB and on the faces of FER. A model
answers with a label, -1 or 1, as in the paper. Measured are the distortion |phi(z, private model) - phi*(z, model)|,
the approximation loss, and the errors of the model among the 50 rows nearest to z.

Algorithm 1 has the paper's sigma. Our moments have the bound, the scale, the ridge and the solve of the product, on
sums computed here, with rounded normal noise in place of the exact sampler: the matrix of a record is then shared by
all models. `python -m bench local` takes the whole path of the product, and `showcase` compares the two.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting import rdp
from matplotlib.figure import Figure
from rich.progress import track
from scipy.special import expit
from threadpoolctl import threadpool_limits

import dpexplain as dpx
from bench import report, scenes
from bench.local import algorithm_1, paper_sigma
from bench.scenes import Problem
from dpexplain.core.domain import PublicRange
from dpexplain.core.sensitivity import Neighbours, Relation
from dpexplain.maths.surrogate import Local, Space, StepWeight
from dpexplain.maths.surrogate.moments import Moments

EPSILON, DELTA, STEPS = 0.1, 1e-5, 200  # of one explanation
TRAINING = {"0.5": 0.5, "2": 2.0, "10": 10.0, "none": None}  # epsilon of a model, delta 1e-5
EXTRA = {"0.02": 0.02, **TRAINING}  # one more model, as bad as the paper's at 0.5
PUBLISHED = {  # test accuracies
    "IMDB": {"0.5": 0.52, "2": 0.74, "10": 0.81, "none": 0.836},
    "faces": {"0.5": 0.51, "2": 0.62, "10": 0.80, "none": 0.843},
}
NEAREST = 50
METHODS = ("Algorithm 1", "ours")
AMAZON = 8_815_568  # rows of the paper's text table


# Models ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    hidden: int = 16
    batch: int = 1000  # the expected size of a Poisson sample
    epochs: int = 15
    rate: float = 1.5
    clip: float = 1.0


@dataclass(frozen=True)
class Network:
    """x -> tanh(x V + v) w + u, a score whose sign is the label."""

    V: np.ndarray
    w: np.ndarray

    def score(self, X: np.ndarray) -> np.ndarray:
        return _with_one(np.tanh(_with_one(X) @ self.V)) @ self.w

    def label(self, X: np.ndarray) -> np.ndarray:
        return np.where(self.score(X) > 0, 1.0, -1.0)


def _with_one(X: np.ndarray) -> np.ndarray:
    return np.column_stack([X, np.ones(len(X))])


def multiplier(epsilon: float, recipe: Recipe, rows: int) -> float:
    """The noise in units of the clipping norm that makes the whole training (epsilon, DELTA)-DP, add-remove."""
    share, steps = recipe.batch / rows, recipe.epochs * rows // recipe.batch

    def event(noise: float) -> dp_accounting.DpEvent:
        one = dp_accounting.PoissonSampledDpEvent(share, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(one, steps)

    interval = dp_accounting.ExplicitBracketInterval(0.3, 1000.0)
    return float(dp_accounting.calibrate_dp_mechanism(_accountant, event, epsilon, DELTA, interval, tol=1e-3))


def _accountant() -> dp_accounting.PrivacyAccountant:
    return rdp.RdpAccountant(orders=[*range(2, 33), 40, 48, 64, 96, 128, 192, 256, 512, 1024])  # whole ones are quick


def train(X: np.ndarray, y: np.ndarray, epsilon: float | None, recipe: Recipe, seed: int = 0) -> Network:
    """DP-SGD on the logistic loss; without an epsilon no clipping and no noise. `y` is -1 or 1."""
    random, rows = np.random.default_rng(seed), len(X)
    noise = 0.0 if epsilon is None else recipe.clip * multiplier(epsilon, recipe, rows)
    X1, y = _with_one(X).astype(np.float32), y.astype(np.float32)
    V = random.normal(0, 1 / np.sqrt(X1.shape[1]), (X1.shape[1], recipe.hidden))
    w = random.normal(0, 1 / np.sqrt(recipe.hidden), recipe.hidden + 1)
    size2 = (X1**2).sum(axis=1)
    for _ in range(recipe.epochs * rows // recipe.batch):
        some = np.flatnonzero(random.random(rows) < recipe.batch / rows)
        x, h = X1[some], np.tanh(X1[some] @ V)
        h1 = _with_one(h)
        last = -y[some] * expit(-y[some] * (h1 @ w))  # the derivative of log(1 + exp(-y score))
        first = last[:, None] * w[:-1] * (1 - h**2)
        # the gradient of one example is (x first', last h1): its norm needs no matrix for each example
        norm = np.sqrt((first**2).sum(axis=1) * size2[some] + last**2 * (h1**2).sum(axis=1))
        keep = np.ones(len(some)) if epsilon is None else np.minimum(1, recipe.clip / np.maximum(norm, 1e-12))
        step = recipe.rate / recipe.batch
        V = V - step * (x.T @ (first * keep[:, None]) + random.normal(0, noise, V.shape))
        w = w - step * ((last * keep) @ h1 + random.normal(0, noise, w.shape))
    return Network(V, w)


# Explanations ---------------------------------------------------------------------------------------------------------


@cache
def rho(epsilon: float, delta: float) -> float:
    """The zCDP that is (epsilon, delta)-DP."""
    return float(dpx.Budget(epsilon, delta).total.amount)


@dataclass(frozen=True)
class Ours:
    """Our moments for records of `size` coordinates in [0, 1]: the paper's loss and weight, add-remove."""

    size: int

    @cached_property
    def moments(self) -> Moments:
        names = [f"x{i}" for i in range(self.size)]
        space = Space(dpx.Domain({name: dpx.Numeric(0, 1) for name in names}), tuple(names))
        weight = StepWeight.of("stable", space.diameter)
        local = Local(space, weight, PublicRange(-1, 1), dict.fromkeys(names, 0.0), 0.0)
        return Moments.of(local, Relation.ADD_REMOVE, 1.0)

    def explain(
        self, problem: Problem, rows: int, epsilon: float, delta: float, random: np.random.Generator
    ) -> np.ndarray:
        """One private phi for a table with the mean moments of `problem`."""
        sums = np.concatenate([problem.A.ravel(), problem.b]) * (rows * float(self.moments.local.levels) ** 2)
        std = self.moments.bound(Neighbours(Relation.ADD_REMOVE)) / np.sqrt(2 * rho(epsilon, delta))
        noise = np.rint(random.normal(0, std, self.moments.size)).astype(np.int64)
        released = np.array(self.moments.pack(np.rint(sums).astype(np.int64))) + noise
        return self.moments.fit(released, std).coefficients


def problems(X: np.ndarray, z: np.ndarray, answers: Mapping[str, np.ndarray]) -> tuple[dict[str, Problem], np.ndarray]:
    """The exact loss around z for each model, from every row; and the distances."""
    D = X - z
    u = np.sqrt(np.einsum("ij,ij->i", D, D))
    a = scenes.stable(u)
    root = np.sqrt(a).astype(X.dtype)
    D *= root[:, None]
    A = (D.T @ D).astype(np.float64) / len(X)
    return {
        name: Problem(A, (D.T @ (root * f.astype(X.dtype))).astype(np.float64) / len(X), float(a @ f**2) / len(X))
        for name, f in answers.items()
    }, u


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300))


# IMDB: Figures 7 and 8 ------------------------------------------------------------------------------------------------


def reviews(options: Namespace) -> dict[str, Any]:
    """Distortion, loss and errors nearby for every point of interest, model, method and size of the table."""
    scene = scenes.imdb(options.data)
    X, truth = scene.X.astype(np.float32), scene.f
    order = np.random.default_rng(0).permutation(scene.rows)
    learn, test = order[: scene.rows * 7 // 10], order[scene.rows * 7 // 10 :]
    recipe = Recipe(epochs=2 if options.quick else 15)
    answers, accuracy = {}, {}
    for name, epsilon in track(EXTRA.items(), description="IMDB: models"):
        answers[name] = train(X[learn] - MEAN, truth[learn], epsilon, recipe).label(X - MEAN)
        accuracy[name] = float((answers[name] == truth)[test].mean())
    points = scene.sample(3 if options.quick else 200)
    found = explained(X, truth, answers, points, {"50,000": scene.rows, "8,815,568": AMAZON})
    return {"rows": scene.rows, "points": len(points), "test accuracy": accuracy, "by size": found}


MEAN = np.float32(0.128)  # of the bag of words, rounded; a constant shift that makes training quicker


def explained(
    X: np.ndarray,
    truth: np.ndarray,
    answers: Mapping[str, np.ndarray],
    points: np.ndarray,
    sizes: Mapping[str, int],
    repetitions: int = 3,
) -> dict[str, Any]:
    """For each size of the table, method and model: one number for each point.

    A larger size stands for a table with copies of every row: the same means, relatively less noise.
    """
    random, ours = np.random.default_rng(0), Ours(X.shape[1])
    found: dict[str, Any] = {
        size: {m: {name: {"dist": [], "loss": []} for name in answers} for m in ("Algorithm 1", "ours")}
        for size in sizes
    }
    missed: dict[str, list[float]] = {name: [] for name in answers}
    zero: dict[str, list[float]] = {name: [] for name in answers}
    for i in track(points, description="explanations"):
        exact, u = problems(X, X[i], answers)
        near = np.argsort(u, kind="stable")[:NEAREST]
        for name, problem in exact.items():
            missed[name].append(float((answers[name][near] != truth[near]).mean()))
            zero[name].append(float(problem.excess(np.zeros(len(problem.b)))))
            for size, rows in sizes.items():
                sigma = paper_sigma(rows, STEPS, EPSILON, DELTA)
                phis = {
                    "Algorithm 1": algorithm_1(problem, sigma, STEPS, repetitions, random),
                    "ours": ours.explain(problem, rows, EPSILON, DELTA, random)[None],
                }
                for method, phi in phis.items():
                    cell = found[size][method][name]
                    cell["dist"].append(float(np.linalg.norm(phi - exact["none"].best, axis=1).mean()))
                    cell["loss"].append(float(problem.excess(phi).mean()))
    return {"sizes": found, "missed nearby": missed, "loss of phi = 0": zero}


def summary(reviews: dict[str, Any]) -> dict[str, Any]:
    """Means, and the correlation of loss with errors nearby."""
    found = reviews["by size"]
    lines: dict[str, Any] = {
        "test accuracy": {k: [round(v, 3), PUBLISHED["IMDB"].get(k)] for k, v in reviews["test accuracy"].items()},
        "errors among 50 nearest": {k: round(float(np.mean(v)), 3) for k, v in found["missed nearby"].items()},
        "loss of phi = 0": {k: float(np.mean(v)) for k, v in found["loss of phi = 0"].items()},
    }
    for size, methods in found["sizes"].items():
        for method, models in methods.items():
            lines[f"{method}, {size} rows"] = {
                name: {
                    "dist": round(float(np.mean(cell["dist"])), 4),
                    "loss": float(f"{np.mean(cell['loss']):.3g}"),
                    "correlation with errors nearby": correlation(found["missed nearby"][name], cell["loss"]),
                }
                for name, cell in models.items()
            }
    return lines


def correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    return round(float(np.corrcoef(a, b)[0, 1]), 3) if np.std(a) > 0 and np.std(b) > 0 else None


COLOURS = {"0.02": "#7f7f7f", "0.5": "#c00000", "2": "#c55a11", "10": "#2e75b6", "none": "#1f4e79"}


def _figure(found: dict[str, Any]) -> Figure:
    """Lines: distortion (7a), loss (7b), loss against errors nearby (8); columns: method and size of the table."""
    figure = Figure(figsize=(15, 10), layout="constrained")
    cases = [(size, method) for size in found["sizes"] for method in METHODS]
    axes = figure.subplots(3, len(cases))
    for j, (size, method) in enumerate(cases):
        models = found["sizes"][size][method]
        axes[0, j].set_title(f"{method}, {size} rows", fontsize=10)
        for line, what in enumerate(("dist", "loss")):
            values = {name: cell[what] for name, cell in models.items()}
            bins = np.linspace(min(map(min, values.values())), max(map(max, values.values())), 31)
            for name, value in values.items():
                axes[line, j].hist(value, bins, histtype="step", lw=1.5, color=COLOURS[name], label=_named(name))
        for name, cell in models.items():
            r = correlation(found["missed nearby"][name], cell["loss"])
            label = f"{_named(name)}: r = {r}"
            axes[2, j].plot(found["missed nearby"][name], cell["loss"], ".", ms=4, color=COLOURS[name], label=label)
        axes[0, j].set_xlabel("distortion |phi - phi*|")
        axes[1, j].set_xlabel("approximation loss")
        axes[2, j].set_xlabel("errors among the 50 nearest rows")
        axes[2, j].set_ylabel("approximation loss")
        axes[2, j].legend(fontsize=7)
    axes[0, 0].legend(fontsize=8, title="training epsilon")
    return figure


def _named(name: str) -> str:
    return "not private" if name == "none" else name


# Faces: Figure 6 ------------------------------------------------------------------------------------------------------


def shrunk(pixels: np.ndarray, side: int) -> np.ndarray:
    """Square images as means over blocks of pixels."""
    whole = int(np.sqrt(pixels.shape[1]))
    block = whole // side
    return pixels.reshape(-1, side, block, side, block).mean(axis=(2, 4)).reshape(len(pixels), -1).astype(np.float32)


def edges(pixels: np.ndarray, cells: int = 8, directions: int = 8) -> np.ndarray:
    """What a network is fed: how much grey values change, by place and direction (a histogram of oriented gradients).

    It is computed from one image alone, so it costs no privacy; from bare pixels these networks learn 72 %.
    """
    images = pixels.reshape(-1, 48, 48).astype(np.float32)
    down, right = np.gradient(images, axis=(1, 2))
    size, turn = np.hypot(right, down), np.mod(np.arctan2(down, right), np.pi) / np.pi * directions
    block = 48 // cells
    found = np.zeros((len(images), directions, cells, cells), np.float32)
    for d in range(directions):
        away = abs(turn - d)
        share = np.maximum(1 - np.minimum(away, directions - away), 0)
        found[:, d] = (size * share).reshape(-1, cells, block, cells, block).sum(axis=(2, 4))
    found /= np.linalg.norm(found, axis=1, keepdims=True) + 0.05 * block
    flat = found.reshape(len(images), -1)
    centred = flat - flat.mean(axis=1, keepdims=True)
    return 16 * centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-6)


FACES = Recipe(hidden=32, batch=500, epochs=25, rate=0.5)
SIDE = 24


def faces(options: Namespace) -> tuple[dict[str, Any], Figure]:
    """The accuracies, and one face that every model takes for a happy one, explained for each of them."""
    (pixels, happy), (others, smiling) = scenes.faces(options.data), scenes.faces(options.data, "test")
    X, T = shrunk(pixels, SIDE), shrunk(others, SIDE)
    seen, unseen = edges(pixels), edges(others)
    truth, wanted = 2.0 * happy - 1, 2.0 * smiling - 1
    recipe = Recipe(**{**vars(FACES), "epochs": 2}) if options.quick else FACES
    models = {name: train(seen, truth, e, recipe) for name, e in track(TRAINING.items(), description="faces")}
    labels = {name: model.label(unseen) for name, model in models.items()}
    accuracy = {name: float((label == wanted).mean()) for name, label in labels.items()}
    fooled = np.flatnonzero((wanted < 0) & np.all([label > 0 for label in labels.values()], axis=0))
    z = T[fooled[np.argmin(np.linalg.norm(T[fooled] - X.mean(axis=0), axis=1))]]  # the most ordinary of them
    exact, _ = problems(X, z, {name: model.label(seen) for name, model in models.items()})
    random, ours = np.random.default_rng(0), Ours(SIDE**2)
    rows = len(X)
    pictures: dict[str, dict[str, np.ndarray]] = {"exact": {name: p.best for name, p in exact.items()}}
    sigma = paper_sigma(rows, STEPS, EPSILON, DELTA)
    pictures[f"Algorithm 1, epsilon {EPSILON:g}"] = {
        name: algorithm_1(p, sigma, STEPS, 1, random)[0] for name, p in exact.items()
    }
    for epsilon in (EPSILON, 1.0, 10.0):
        pictures[f"ours, epsilon {epsilon:g}"] = {
            name: ours.explain(p, rows, epsilon, DELTA, random) for name, p in exact.items()
        }
    lines = {
        "rows": rows,
        "misclassified as happy by all models": len(fooled),
        "test accuracy": accuracy,
        "cosine with the exact explanation": {
            method: {name: round(cosine(phi, exact[name].best), 3) for name, phi in found.items()}
            for method, found in pictures.items()
        },
        "loss": {
            method: {name: float(exact[name].excess(phi)) for name, phi in found.items()}
            for method, found in pictures.items()
        },
        "loss of phi = 0": {name: float(p.excess(np.zeros(len(p.b)))) for name, p in exact.items()},
    }
    return lines, _faces_figure(T[~smiling].mean(axis=0), pictures, lines)  # the person is not printed


def heat(ax: Any, phi: np.ndarray) -> None:
    """Blue is a positive influence, red a negative one, as in the paper."""
    side, most = int(np.sqrt(len(phi))), float(np.quantile(abs(phi), 0.995))
    ax.imshow(phi.reshape(side, side), cmap="RdBu", vmin=-most, vmax=most)
    ax.set_xticks([])
    ax.set_yticks([])


def _faces_figure(z: np.ndarray, pictures: dict[str, dict[str, np.ndarray]], lines: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(11, 11.5), layout="constrained")
    axes = figure.subplots(len(pictures), len(TRAINING) + 1)
    for i, (method, found) in enumerate(pictures.items()):
        axes[i, 0].axis("off")
        axes[i, 0].text(0.5, -0.08, method, ha="center", va="top", fontsize=9, transform=axes[i, 0].transAxes)
        axes[i, 0].imshow(z.reshape(SIDE, SIDE), cmap="gray")
        axes[i, 0].set_title("mean of sad faces" if i == 0 else "", fontsize=10)
        for j, (name, phi) in enumerate(found.items(), 1):
            heat(axes[i, j], phi)
            if i == 0:
                axes[i, j].set_title(f"model: {_named(name)}", fontsize=10)
            else:
                axes[i, j].set_title(
                    f"cosine {lines['cosine with the exact explanation'][method][name]:.2f}", fontsize=8
                )
    return figure


@threadpool_limits.wrap(limits=1)  # the products are small: threads would mostly wait for each other
def run(options: Namespace) -> None:
    lines, figure = faces(options)
    head = {
        **lines,
        "test accuracy": {k: [round(v, 3), PUBLISHED["faces"][k]] for k, v in lines["test accuracy"].items()},
    }
    report.write("private_models-faces", options, {"summary": head, **lines}, figure)
    found = reviews(options)
    content = {"summary": summary(found), "published accuracies": PUBLISHED, **found}
    report.write("private_models", options, content, None if options.quick else _figure(found["by size"]))
