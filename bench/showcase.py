"""What paper 001 shows, on tables that we have: Figure 1, Table 2, Table 3, and the quality for minorities.

Algorithm 1 has the paper's sigma (Table 3 takes the better of T = 20 and 200); beside it stand the same algorithm with
zCDP accounting and our moments, as in `private_models`. The loss and the weight are the paper's. A table "as if of 8.8
million rows" has every row that many times: the same means, less noise for each row.
"""

from __future__ import annotations

import re
import textwrap
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from bench import report, scenes
from bench.local import Product, algorithm_1, paper_sigma
from bench.private_models import (
    AMAZON,
    FACES,
    Ours,
    cosine,
    edges,
    heat,
    problems,
    rho,
    shrunk,
    train,
)
from bench.scenes import Problem, Scene

STEPS = (20, 200)
DELTA = 1e-6
PAPER, ZCDP, OURS = "Algorithm 1, paper sigma", "Algorithm 1, zCDP", "ours"
PUBLISHED = {  # Table 3: mean and variance of the loss
    "faces": {"0.01": (1.4e-2, 4.3e-4), "0.1": (2.2e-3, 2.1e-4)},
    "text": {"0.01": (2.7e-3, 7.8e-4), "0.1": (4.3e-4, 9.4e-6)},
    "ACS13": {"0.01": (5.7e-3, 1.3e-4), "0.1": (2.6e-4, 6.3e-5)},
}


def answers(
    problem: Problem,
    rows: int,
    epsilon: float,
    random: np.random.Generator,
    *,
    delta: float = DELTA,
    repetitions: int = 1,
    steps: Sequence[int] = STEPS,
) -> dict[str, np.ndarray]:
    """phi of every method, one line for each repetition."""
    ours = _OURS.setdefault(len(problem.b), Ours(len(problem.b)))
    weight = ours.moments.local.weight
    bound = float((2 * weight.values * weight.edges * (1 + weight.edges)).max())  # of the gradient of one row
    found = {}
    for count in steps:
        zcdp = bound / rows * np.sqrt(count / (2 * rho(epsilon, delta)))
        sigmas = {PAPER: paper_sigma(rows, count, epsilon, delta), ZCDP: float(zcdp)}
        for name, sigma in sigmas.items():
            found[f"{name}, T={count}"] = algorithm_1(problem, sigma, count, repetitions, random)
    found[OURS] = np.array([ours.explain(problem, rows, epsilon, delta, random) for _ in range(repetitions)])
    return found


_OURS: dict[int, Ours] = {}


# Table 3 --------------------------------------------------------------------------------------------------------------


def losses(
    name: str,
    X: np.ndarray,
    f: np.ndarray,
    points: np.ndarray,
    *,
    published: str,
    sizes: Sequence[int] = (),
    repetitions: int = 5,
) -> list[dict[str, Any]]:
    """One line of the table for each number of rows."""
    random = np.random.default_rng(0)
    found: dict[tuple[int, str], dict[str, list[np.ndarray]]] = {}
    zero = []
    for i in track(points, description=f"Table 3: {name}"):
        problem = problems(X, X[i], {"f": f})[0]["f"]
        zero.append(float(problem.excess(np.zeros(len(problem.b)))))
        for rows in (len(f), *sizes):
            for epsilon in (0.01, 0.1):
                cell = found.setdefault((rows, f"{epsilon:g}"), {})
                for method, phi in answers(problem, rows, epsilon, random, repetitions=repetitions).items():
                    cell.setdefault(method, []).append(problem.excess(phi))
    return [
        {
            "table": name,
            "rows": rows,
            "columns": X.shape[1],
            "points": len(points),
            "repetitions": repetitions,
            "loss of phi = 0": float(np.mean(zero)),
            "published (mean, variance)": {"table": published, **PUBLISHED[published]},
            "epsilon": {
                epsilon: best_of({method: np.array(values) for method, values in cell.items()})
                for (size, epsilon), cell in found.items()
                if size == rows
            },
        }
        for rows in (len(f), *sizes)
    ]


def best_of(values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Mean and variance over points and repetitions; of Algorithm 1 the number of steps with the smaller mean."""
    lines = {}
    for family in (PAPER, ZCDP, OURS):
        name = min((n for n in values if n.startswith(family)), key=lambda n: float(values[n].mean()))
        lines[name] = {"mean": _short(values[name].mean()), "variance": _short(values[name].var())}
    return lines


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def table_3(options: Namespace, pixels: np.ndarray, labels: np.ndarray) -> list[dict[str, Any]]:
    quick = options.quick
    adult = scenes.adult(options.data)
    lines = losses("Adult", adult.X, adult.f, adult.sample(5 if quick else 200), published="ACS13")
    imdb = scenes.imdb(options.data)
    X, some = imdb.X.astype(np.float32), imdb.sample(1 if quick else 25)
    lines += losses("IMDB", X, imdb.f, some, published="text", sizes=[AMAZON], repetitions=2)
    for side, count, repetitions in ((12, 40, 5), (48, 2, 1)):
        if quick and side == 48:
            continue
        small = shrunk(pixels, side)
        points = np.random.default_rng(0).choice(len(small), 1 if quick else count, replace=False)
        name = f"faces, {side} x {side}"
        lines += losses(name, small, labels, points, published="faces", repetitions=repetitions)
    if not quick:
        census = scenes.census(options.data)
        lines += losses("Census", census.X, census.f, census.sample(40), published="ACS13")
        drawn = np.random.default_rng(1).integers(census.rows, size=1_500_000)
        many = Scene("Census, resampled", census.columns, census.X[drawn], census.f[drawn])
        lines += losses(many.name, many.X, many.f, many.sample(10), published="ACS13")
    return lines


def more_steps(options: Namespace) -> dict[str, Any]:
    """IMDB as if of 8.8 million rows, epsilon 0.1: does Algorithm 1 need more steps? The paper names none here."""
    scene, random = scenes.imdb(options.data), np.random.default_rng(3)
    X = scene.X.astype(np.float32)
    found: dict[str, list[float]] = {}
    for i in track(scene.sample(1 if options.quick else 10, seed=1), description="more steps"):
        problem = problems(X, X[i], {"f": scene.f})[0]["f"]
        found.setdefault("phi = 0", []).append(float(problem.excess(np.zeros(len(problem.b)))))
        for steps in (200, 2000) if options.quick else (200, 2000, 20_000):
            phi = algorithm_1(problem, paper_sigma(AMAZON, steps, 0.1, DELTA), steps, 1, random)
            found.setdefault(f"T={steps}", []).append(float(problem.excess(phi).mean()))
    return {name: _short(float(np.mean(values))) for name, values in found.items()}


def labelled_faces(options: Namespace) -> tuple[np.ndarray, np.ndarray]:
    """The training faces, and the labels of a network trained without privacy."""
    pixels, happy = scenes.faces(options.data)
    seen = edges(pixels)
    return pixels, train(seen, 2.0 * happy - 1, None, FACES).label(seen)


def checked_against_the_product(options: Namespace) -> dict[str, float]:
    """The mean loss on Adult, epsilon 1: the whole path of the product, and the short one used here."""
    scene, random = scenes.adult(options.data), np.random.default_rng(2)
    product, ours = Product(scene, "add-remove"), Ours(len(scene.columns))
    found: dict[str, list[float]] = {"product": [], "here": []}
    for i in scene.sample(2 if options.quick else 20):
        problem = scene.problem(scene.X[i])
        phi = product.explanations(scene.X[i], [1.0], 5, method="moments")[0]
        found["product"] += problem.excess(phi).tolist()
        here = np.array([ours.explain(problem, scene.rows, 1.0, DELTA, random) for _ in range(5)])
        found["here"] += problem.excess(here).tolist()
    return {name: _short(float(np.mean(values))) for name, values in found.items()}


# Figure 1 -------------------------------------------------------------------------------------------------------------

EPSILONS = (0.01, 0.1, 1.0, 10.0)


def figure_1(options: Namespace, pixels: np.ndarray, labels: np.ndarray) -> tuple[dict[str, Any], Figure]:
    """One face of the test split, explained at several epsilons (delta 1e-5), with all pixels and with 144 blocks."""
    others, happy = scenes.faces(options.data, "test")
    face = others[np.flatnonzero(happy)[1]]
    random = np.random.default_rng(0)
    lines: dict[str, Any] = {"rows": len(pixels), "delta": 1e-5}
    pictures: list[tuple[str, list[np.ndarray], list[float]]] = []
    for side in (12,) if options.quick else (48, 12):
        z = shrunk(face[None], side)[0]
        problem = problems(shrunk(pixels, side), z, {"f": labels})[0]["f"]
        by: dict[str, list[np.ndarray]] = {}
        for epsilon in track(EPSILONS, description=f"Figure 1: {side} x {side}"):
            for method, phi in answers(problem, len(pixels), epsilon, random, delta=1e-5, steps=(200,)).items():
                by.setdefault(method, []).append(phi[0])
        for method, phis in by.items():
            near = [cosine(phi, problem.best) for phi in phis]
            lines[f"{method}, {side} x {side}"] = {
                f"epsilon {e:g}": {"cosine": round(c, 3), "loss": _short(float(problem.excess(phi)))}
                for e, c, phi in zip(EPSILONS, near, phis, strict=True)
            }
            pictures.append((f"{method}\n{side} x {side}", [*phis, problem.best], [*near, 1.0]))
        lines[f"loss of phi = 0, {side} x {side}"] = _short(float(problem.excess(np.zeros(side**2))))
    return lines, _faces_figure(others[happy].mean(axis=0), pictures)  # the person is not printed: a mean stands for it


def _faces_figure(face: np.ndarray, pictures: Sequence[tuple[str, list[np.ndarray], list[float]]]) -> Figure:
    titles = [*(f"epsilon {e:g}" for e in EPSILONS), "exact"]
    figure = Figure(figsize=(11.5, 1.95 * len(pictures)), layout="constrained")
    axes = figure.subplots(len(pictures), len(titles) + 1)
    for i, (name, phis, near) in enumerate(pictures):
        axes[i, 0].imshow(face.reshape(48, 48), cmap="gray")
        axes[i, 0].set_xticks([])
        axes[i, 0].set_yticks([])
        axes[i, 0].set_ylabel(name, fontsize=7)
        axes[i, 0].set_title("mean of happy faces" if i == 0 else "", fontsize=8)
        for j, (phi, c) in enumerate(zip(phis, near, strict=True)):
            heat(axes[i, j + 1], phi)
            axes[i, j + 1].set_title((f"{titles[j]}\n" if i == 0 else "") + f"cosine {c:.2f}", fontsize=8)
    return figure


# Table 2 --------------------------------------------------------------------------------------------------------------

TOP = 5
CASES = {"epsilon 0.1": (50_000, 0.1), "epsilon 1": (50_000, 1.0), "epsilon 10": (50_000, 10.0)}
LARGE = {"epsilon 0.1, as if of 8.8 million rows": (AMAZON, 0.1)}


def table_2(options: Namespace) -> tuple[dict[str, Any], Figure]:
    """The five most influential words of reviews: exact, LIME, Algorithm 1, ours; and how many they share."""
    scene = scenes.imdb(options.data)
    learn = (pd.read_parquet(options.data / "imdb_bow500.parquet", columns=["split"])["split"] == "train").to_numpy()
    words = [name[2:] for name in scene.columns]
    judge = LogisticRegression(C=0.1, max_iter=1000).fit(scene.X[learn], scene.f[learn])
    score = 2 * judge.predict_proba(scene.X)[:, 1] - 1
    texts = pd.read_parquet(options.data / "imdb_sample200_text.parquet")
    count = 2 if options.quick else 60
    texts = pd.concat([texts[texts["label"] == label].head(count // 2) for label in (0, 1)])
    X, random = scene.X.astype(np.float32), np.random.default_rng(0)
    shared: dict[str, dict[str, list[float]]] = {}
    chance, examples = [], []
    for row, label, text in track(
        list(texts[["row", "label", "text"]].itertuples(index=False)), description="Table 2: reviews"
    ):
        problem = problems(X, X[row], {"f": score})[0]["f"]
        present = np.flatnonzero(X[row])
        tops = {"exact": top(problem.best, present, words), "LIME": lime_words(text, words, judge)}
        for case, (rows, epsilon) in {**CASES, **LARGE}.items():
            for method, phi in answers(problem, rows, epsilon, random, steps=(200,)).items():
                tops[f"{method.replace(', T=200', '')}, {case}"] = top(phi[0], present, words)
        chance.append(TOP**2 / len(present))
        examples.append({"row": int(row), "label": int(label), "text": _plain(text), "top": tops})
        for name, found in tops.items():
            for other in ("exact", "LIME"):
                if name != other:
                    common = {w for w, _ in found} & {w for w, _ in tops[other]}
                    shared.setdefault(name, {}).setdefault(other, []).append(len(common))
    shortest = sorted(examples, key=lambda example: len(example["text"]))
    chosen = [*[e for e in shortest if e["label"]][:2], *[e for e in shortest if not e["label"]][:2]]
    lines = {
        "reviews": len(texts),
        "accuracy of the black box": round(float(judge.score(scene.X[~learn], scene.f[~learn])), 4),
        "words of 5 shared by chance": round(float(np.mean(chance)), 2),
        "words of 5 shared, mean": {
            name: {other: round(float(np.mean(v)), 2) for other, v in by.items()} for name, by in shared.items()
        },
        "published": "Algorithm 1 at epsilon 0.1 shares 3.9 of 5 with LIME (8.8 million reviews)",
        "examples": chosen,
    }
    return lines, _reviews_figure(chosen)


def top(phi: np.ndarray, present: np.ndarray, words: Sequence[str]) -> list[tuple[str, int]]:
    """The words of the review with the largest coefficients, and their signs."""
    order = present[np.argsort(-abs(phi[present]), kind="stable")[:TOP]]
    return [(words[i], int(np.sign(phi[i]))) for i in order]


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)).strip()


def lime_words(text: str, words: Sequence[str], judge: LogisticRegression) -> list[tuple[str, int]]:
    """LIME at its defaults on the raw text; the black box counts words."""
    from lime.lime_text import LimeTextExplainer  # pip install lime: for this benchmark only

    position = {word: i for i, word in enumerate(words)}

    def predict(texts: list[str]) -> np.ndarray:
        bags = np.zeros((len(texts), len(words)))
        for bag, one in zip(bags, texts, strict=True):
            bag[[position[word] for word in set(re.findall(r"[a-z]+(?:'[a-z]+)?", one)) if word in position]] = 1
        return judge.predict_proba(bags)

    explainer = LimeTextExplainer(split_expression=r"[^a-z']+", random_state=0)
    found = explainer.explain_instance(_plain(text).lower(), predict)
    return [(word, int(np.sign(weight))) for word, weight in found.as_list()[:TOP]]


def _reviews_figure(examples: Sequence[dict[str, Any]]) -> Figure:
    """The reviews with the words of each method: blue speaks for a good review, red against."""
    names = list(examples[0]["top"])
    figure = Figure(figsize=(12, len(examples) * (len(names) + 4) * 0.19), layout="constrained")
    ax = figure.subplots()
    ax.axis("off")
    y, lines = 0, len(examples) * (len(names) + 4)
    for example in examples:
        kind = "positive" if example["label"] else "negative"
        shown = textwrap.shorten(example["text"], 270, placeholder=" ...")
        ax.text(0, y, f"{kind}: " + "\n".join(textwrap.wrap(shown, 145)), fontsize=8, va="top", style="italic")
        y += 2.6
        for name in names:
            ax.text(0.01, y, name, fontsize=7.5, va="top", color="#444444")
            for j, (word, sign) in enumerate(example["top"][name]):
                colour = {1: "#1f4e79", -1: "#c00000", 0: "#444444"}[sign]
                ax.text(0.42 + 0.11 * j, y, word, fontsize=8, va="top", color=colour, weight="bold")
            y += 1
        y += 0.8
    ax.set_xlim(0, 1)
    ax.set_ylim(lines, 0)
    return figure


# Minorities -----------------------------------------------------------------------------------------------------------


def groups(options: Namespace) -> tuple[dict[str, Any], Figure]:
    """Adult: the approximation loss by race and sex of the record, alone and as a share of the exact loss."""
    scene, random = scenes.adult(options.data), np.random.default_rng(0)
    frame = pd.read_parquet(options.data / "adult.parquet")
    frame = frame[frame["split"] == "train"].reset_index(drop=True)
    lines: dict[str, Any] = {}
    for column in ("race", "sex"):
        for group, members in frame.groupby(column, observed=True).groups.items():
            size = min(len(members), 4 if options.quick else 200)
            points = random.choice(np.asarray(members), size, replace=False)
            lines[f"{column}={group}"] = {"rows in the table": len(members), **of_group(scene, points, random)}
    return lines, _groups_figure(lines)


def of_group(scene: Scene, points: np.ndarray, random: np.random.Generator) -> dict[str, Any]:
    found: dict[str, list[float]] = {}
    exact, nearby = [], []
    for i in track(points, description="minorities"):
        exacts, u = problems(scene.X, scene.X[i], {"f": scene.f})
        problem = exacts["f"]
        exact.append(float(problem.loss(problem.best)))
        nearby.append(float(scenes.stable(u).mean()))
        for epsilon in (0.1, 1.0):
            for method, phi in answers(problem, scene.rows, epsilon, random, repetitions=5).items():
                found.setdefault(f"{method}, epsilon {epsilon:g}", []).append(float(problem.excess(phi).mean()))
    return {
        "points": len(points),
        "exact loss": _short(float(np.mean(exact))),
        "mean weight of a row": _short(float(np.mean(nearby))),
        "loss": {name: [_short(float(np.mean(v))), _short(_error(v))] for name, v in found.items()},
        "loss / exact loss": {
            name: [_short(float(np.mean(np.divide(v, exact)))), _short(_error(np.divide(v, exact)))]
            for name, v in found.items()
        },
    }


def brief(lines: dict[str, Any]) -> dict[str, Any]:
    """Loss as a share of the exact loss: the better Algorithm 1 with the paper's sigma, and ours."""
    return {
        group: {
            "rows": line["rows in the table"],
            **{
                f"epsilon {e}": [
                    min(line["loss / exact loss"][f"{PAPER}, T={steps}, epsilon {e}"][0] for steps in STEPS),
                    line["loss / exact loss"][f"{OURS}, epsilon {e}"][0],
                ]
                for e in ("0.1", "1")
            },
        }
        for group, line in lines.items()
    }


def _error(values: Any) -> float:
    """The standard error of a mean."""
    return float(np.std(values) / np.sqrt(len(values)))


def _groups_figure(lines: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    names = list(lines)
    shown = [f"{PAPER}, T=20", f"{PAPER}, T=200", f"{ZCDP}, T=200", OURS]
    for ax, epsilon in zip(figure.subplots(1, 2, sharey=True), ("0.1", "1"), strict=True):
        for method, mark in zip(shown, "s^vo", strict=True):
            cells = [lines[name]["loss / exact loss"][f"{method}, epsilon {epsilon}"] for name in names]
            ax.errorbar(range(len(names)), [c[0] for c in cells], [c[1] for c in cells], fmt=mark, label=method)
        ax.set_yscale("log")
        ax.set_title(f"epsilon {epsilon}", fontsize=10)
        ax.set_xticks(range(len(names)), [name.split("=")[1] for name in names], rotation=30, ha="right", fontsize=8)
        ax.grid(alpha=0.25)
    figure.axes[0].set_ylabel("approximation loss / exact loss, mean over records")
    figure.axes[0].legend(fontsize=8)
    return figure


@threadpool_limits.wrap(limits=1)  # the products are small: threads would mostly wait for each other
def run(options: Namespace) -> None:
    check = checked_against_the_product(options)
    minority, picture = groups(options)
    report.write("showcase-groups", options, {"summary": brief(minority), "groups": minority}, picture)
    reviews, picture = table_2(options)
    head = {key: value for key, value in reviews.items() if key != "examples"}
    report.write("showcase-reviews", options, {"summary": head, **reviews}, picture)
    pixels, labels = labelled_faces(options)
    faces, picture = figure_1(options, pixels, labels)
    report.write("showcase-faces", options, {"summary": faces}, picture)
    lines = table_3(options, pixels, labels)
    summary = {"moments on Adult, epsilon 1": check, "IMDB, more steps": more_steps(options), "table 3": lines}
    report.write("showcase", options, {"summary": summary})
