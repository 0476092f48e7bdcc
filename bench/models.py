"""Time of private partial dependence against the bare predictions it needs, for each kind of models.

30,000 made-up rows of 10 numeric columns, 20 grid points of one of them, everything included: ledger, the check of a
new model, cleaning, encoding, quantising, noise, post-processing. Bare predictions are what a user of the library
writes: the same rows at each grid point, in one call of the library with its own threads. Both are timed in turns; a
ratio is the median over the rounds of the ratio within a round. "private" shows released values (`smooth=False`), so
that the rows are asked about as often as in bare predictions, but for the check; "again" is the next curve of the same
model object, which has passed the check; "sharpened" is the default, which also asks about synthetic rows at each grid
point. `--part cpu` counts processor time of all threads in the place of time, for a machine that does other work, and
leaves out the server, whose time is another process's. A server runs in a process of its own, on 2 cores where there
are 4, else on those that we use too; its bare predictions are the same requests over the same 8 connections without
anything else (`--part server`: it alone).

`--part points` asks what a curve consists of, in a form that other work on the machine moves little: the least
processor time, of several, of one grid point in bare predictions and in ours (the rows laid out in blocks, encoded,
asked about), of the check of a new model and of that of a known one; how many rows a model is asked about; and what a
point takes on either side of a model server.

`--part gpu`: a torch network on a GPU (on the processor where there is none), 10,000,000 rows, 10 grid points. Bare
predictions are made in the quickest of several sizes of batches.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpexplain as dpx
from bench import report
from dpexplain.data.rows import Rows
from dpexplain.models.predictor import Predictor

ROWS, COLUMNS, POINTS, ROUNDS = 30_000, 10, 20, 3
NAMES = [f"x{j}" for j in range(COLUMNS)]
DOMAIN = dpx.Domain({name: dpx.Numeric(-4, 4) for name in NAMES})
GRID = np.linspace(-2, 2, POINTS)
Ask = Callable[[pd.DataFrame], Any]
Clock = Callable[[], float]
FORMS = ("private", "again", "sharpened")
SERVER_CORES = 2


def run(options: Namespace) -> None:
    if options.part == "gpu":
        return _gpu(options)
    if options.part == "points":
        return _points(options)
    name, clock, kinds = "models", time.perf_counter, dict(KINDS)
    if options.part == "cpu":
        name, clock = "models-cpu", time.process_time
        del kinds["model server"]
    elif options.part == "server":
        name, kinds = "models-server", {"model server": _server}
    rows, risk = _made(3_000 if options.quick else ROWS)
    times, shares = dict[str, dict[str, list[float]]](), dict[str, Any]()
    with tempfile.TemporaryDirectory() as folder:
        for kind, make in kinds.items():
            with suppress(ImportError), make(Path(folder), rows, risk, options.quick) as (source, told, ask, more):
                times[kind] = _timed(rows, source, told, ask, 1 if options.quick else ROUNDS, clock)
                shares |= more()
                print(kind, {name: round(statistics.median(one), 3) for name, one in times[kind].items()}, flush=True)
    missing = [kind for kind in kinds if kind not in times]
    ratios = {kind: {form: _ratio(one, form) for form in FORMS} for kind, one in times.items()}
    summary = {"rows": len(rows), "points": POINTS, "ratios": ratios, "not installed": missing, **shares}
    report.write(name, options, {"summary": summary, "seconds": times}, _figure(times) if name == "models" else None)
    return None


def _made(size: int) -> tuple[pd.DataFrame, Any]:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(size, COLUMNS)).clip(-4, 4)
    rows = pd.DataFrame(values, columns=NAMES)
    return rows, np.tanh(values[:, 0] + values[:, 1] * values[:, 2]) / 2 + 0.5


def _timed(
    rows: pd.DataFrame, source: Any, told: dict[str, Any], ask: Ask, rounds: int, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    versions, times, known = count(), {name: list[float]() for name in (*FORMS, "bare")}, list[dpx.Model]()
    table = _table(rows)

    def private(smooth: bool) -> None:
        known[:] = [dpx.Model(source, output=(0.0, 1.0), version=str(next(versions)), **told)]
        dpx.partial_dependence(table, known[0], "x0", epsilon=1, grid={"x0": GRID.tolist()}, smooth=smooth)

    def again() -> None:
        other = (GRID * 0.999).tolist()  # not the same question, which would be answered from the ledger
        dpx.partial_dependence(table, known[0], "x0", epsilon=1, grid={"x0": other}, smooth=False)

    def bare() -> None:
        for point in GRID:
            ask(rows.assign(x0=point))

    ask(rows)  # caches, threads
    for _ in range(rounds):
        jobs = (("private", partial(private, False)), ("again", again), ("sharpened", partial(private, True)))
        for name, job in (*jobs, ("bare", bare)):
            start = clock()
            job()
            times[name].append(clock() - start)
    return times


def _table(rows: pd.DataFrame) -> dpx.PrivateTable:
    return dpx.PrivateTable(
        rows, domain=DOMAIN, budget=dpx.Budget(10**6), relation="replace-one", ledger="sqlite:///:memory:", name="rows"
    )


def _ratio(times: dict[str, list[float]], name: str) -> float:
    return round(statistics.median(a / b for a, b in zip(times[name], times["bare"], strict=True)), 3)


# The kinds ------------------------------------------------------------------------------------------------------------

Made = Iterator[tuple[Any, dict[str, Any], Ask, Callable[[], dict[str, Any]]]]


def _nothing() -> dict[str, Any]:
    return {}


@contextmanager
def _onnx(folder: Path, rows: pd.DataFrame, risk: Any, quick: bool) -> Made:
    import onnxruntime
    from skl2onnx import to_onnx
    from sklearn.ensemble import GradientBoostingRegressor

    trees = GradientBoostingRegressor(n_estimators=5 if quick else 200, max_depth=5, random_state=0)
    trees.fit(rows.to_numpy()[:10_000], risk[:10_000])
    path = folder / "model.onnx"
    path.write_bytes(to_onnx(trees, rows.to_numpy(np.float32)[:1]).SerializeToString())
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    yield path, {}, lambda frame: session.run(None, {name: frame.to_numpy(np.float32)}), _nothing


@contextmanager
def _xgboost(folder: Path, rows: pd.DataFrame, risk: Any, quick: bool) -> Made:
    import xgboost

    told = {"objective": "reg:logistic", "max_depth": 6}
    booster = xgboost.train(told, xgboost.DMatrix(rows, risk), 5 if quick else 300)
    booster.save_model(folder / "model.ubj")
    yield folder / "model.ubj", {}, lambda frame: booster.predict(xgboost.DMatrix(frame)), _nothing


@contextmanager
def _lightgbm(folder: Path, rows: pd.DataFrame, risk: Any, quick: bool) -> Made:
    booster = _boosted(folder, rows, risk, quick)
    yield folder / "model.txt", {}, booster.predict, _nothing


def _boosted(folder: Path, rows: pd.DataFrame, risk: Any, quick: bool) -> Any:
    import lightgbm

    booster = lightgbm.train(
        {"objective": "cross_entropy", "verbose": -1, "num_leaves": 63},
        lightgbm.Dataset(rows, risk),
        5 if quick else 300,
    )
    booster.save_model(folder / "model.txt")
    return booster


@contextmanager
def _catboost(folder: Path, rows: pd.DataFrame, risk: Any, quick: bool) -> Made:
    import catboost

    model = catboost.CatBoostRegressor(iterations=5 if quick else 1_000, verbose=False, allow_writing_files=False)
    model.fit(rows, risk)
    model.save_model(str(folder / "model.cbm"))
    yield folder / "model.cbm", {}, model.predict, _nothing


@contextmanager
def _torch(_folder: Path, _rows: pd.DataFrame, _risk: Any, quick: bool) -> Made:
    import torch

    network = _network(64 if quick else 512, 2)

    def ask(frame: pd.DataFrame) -> Any:
        with torch.inference_mode():
            return network(torch.from_numpy(frame.to_numpy(np.float32))).numpy()

    yield network, {"options": {"device": "cpu"}}, ask, _nothing


@contextmanager
def _skops(folder: Path, rows: pd.DataFrame, risk: Any, quick: bool) -> Made:
    import skops.io
    from sklearn.ensemble import HistGradientBoostingClassifier

    trees = HistGradientBoostingClassifier(max_iter=5 if quick else 200, random_state=0).fit(rows, risk > 0.5)
    skops.io.dump(trees, folder / "model.skops")
    trusted = skops.io.get_untrusted_types(file=folder / "model.skops")
    told = {"label": True, "options": {"trusted": trusted}}
    yield folder / "model.skops", told, trees.predict_proba, _nothing


@contextmanager
def _mlflow(folder: Path, rows: pd.DataFrame, risk: Any, quick: bool) -> Made:
    import mlflow.pyfunc
    from mlflow.models import infer_signature

    _boosted(folder, rows, risk, quick)
    (folder / "code.py").write_text(CODE % str(folder / "model.txt"))
    signature = infer_signature(rows, risk)
    mlflow.pyfunc.save_model(
        folder / "mlflow", python_model=str(folder / "code.py"), signature=signature, pip_requirements=[]
    )
    model = mlflow.pyfunc.load_model(str(folder / "mlflow"))
    yield folder / "mlflow", {"options": {"trusted": True}}, model.predict, _nothing


CODE = """
import lightgbm, mlflow.pyfunc


class Risk(mlflow.pyfunc.PythonModel):
    booster = lightgbm.Booster(model_file=%r)

    def predict(self, context, model_input, params=None):
        return self.booster.predict(model_input)


mlflow.models.set_model(Risk())
"""


@contextmanager
def _server(folder: Path, rows: pd.DataFrame, risk: Any, quick: bool) -> Made:
    _boosted(folder, rows, risk, quick)
    with _serving(folder, len(rows)) as (url, ask, seconds, cores):

        def used(job: Callable[[], Any]) -> float:
            """How many cores the server used meanwhile."""
            before, start = seconds(), time.perf_counter()
            job()
            return round((seconds() - before) / (time.perf_counter() - start), 2)

        def plain() -> None:
            for point in GRID:
                ask(rows.assign(x1=point))

        def busy() -> dict[str, Any]:
            """How busy the server is during a private curve of a known model, and during bare predictions."""
            table, model = _table(rows), dpx.Model(url, output=(0.0, 1.0), version="1")
            curve = partial(dpx.partial_dependence, table, model, epsilon=1, smooth=False)
            curve("x0", grid={"x0": GRID.tolist()})
            private = used(partial(curve, "x1", grid={"x1": GRID.tolist()}))
            return {"server": {"cores": cores, "used, private": private, "used, bare": used(plain)}}

        yield url, {}, ask, busy


@contextmanager
def _serving(folder: Path, size: int) -> Iterator[tuple[str, Ask, Callable[[], float], str]]:
    """The server's address, bare predictions by 8 connections, its processor seconds so far, and what it runs on."""
    from dpexplain.models.kinds import recognised

    known = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    own = [str(core) for core in sorted(known)[:SERVER_CORES]] if len(known) >= 2 * SERVER_CORES else []
    command = [sys.executable, "-m", "bench.model_server", str(folder / "model.txt"), *own]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018
        url = f"http://127.0.0.1:{process.stdout.readline().strip()}/v2/models/risk"
        client = recognised(url).model
        blocks = [*range(0, size, 2**14), size]

        def ask(frame: pd.DataFrame) -> None:
            values = frame.to_numpy()
            for a, b in pairwise(blocks):
                client.ask(values[a:b])

        def seconds() -> float:
            process.stdin.write("\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            return float(process.stdout.readline())  # type: ignore[union-attr]

        yield url, ask, seconds, f"{len(own)} of its own" if own else f"{os.cpu_count()}, with us"
        process.stdin.close()
        process.wait(10)


KINDS = {
    "ONNX": _onnx, "XGBoost": _xgboost, "LightGBM": _lightgbm, "CatBoost": _catboost, "PyTorch": _torch,
    "skops": _skops, "MLflow": _mlflow, "model server": _server,
}  # fmt: skip


# What a curve consists of ---------------------------------------------------------------------------------------------


def _points(options: Namespace) -> None:
    size, repetitions = (3_000, 2) if options.quick else (ROWS, options.repetitions or 9)
    kinds = {kind: make for kind, make in KINDS.items() if kind != "model server"}
    rows, risk = _made(size)
    found, columns = dict[str, dict[str, float]](), {name: rows[name].to_numpy() for name in NAMES}

    def least(job: Callable[[], Any]) -> float:
        times = []
        for _ in range(repetitions):
            start = time.process_time()
            job()
            times.append(time.process_time() - start)
        return round(1_000 * min(times), 2)

    with tempfile.TemporaryDirectory() as folder:
        for kind, make in kinds.items():
            with suppress(ImportError), make(Path(folder), rows, risk, options.quick) as (source, told, ask, _):

                def checked(model: dpx.Model | None = None, source: Any = source, told: Any = told) -> Predictor:
                    new = model or dpx.Model(source, output=(0.0, 1.0), **told)
                    return new.checked(DOMAIN, rows=size, exact=True)

                model = dpx.Model(source, output=(0.0, 1.0), **told)
                asked = checked(model)
                inputs = asked.inputs(Rows(DOMAIN, columns, size))
                one = {
                    "bare": least(lambda ask=ask: ask(rows.assign(x0=0.5))),  # type: ignore[misc]
                    "ours": least(partial(asked.predict_at, inputs, {"x0": 0.5})),
                    "known model": least(partial(checked, model)),
                    "new model": least(checked),
                }
                found[kind] = one
                print(kind, one, flush=True)
        served = _served(Path(folder), rows, risk, options.quick, repetitions)
    ratios = {
        kind: {
            "a point": round(one["ours"] / one["bare"], 3),
            **{
                f"{POINTS} points, {name}": round((POINTS * one["ours"] + one[name]) / (POINTS * one["bare"]), 3)
                for name in ("new model", "known model")
            },
        }
        for kind, one in found.items()
    }
    missing = [kind for kind in kinds if kind not in found]
    summary = {
        "rows": size,
        "points": POINTS,
        "rows asked about": _asked(rows),
        "ratios": ratios,
        "not installed": missing,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
    }
    report.write("models-points", options, {"summary": summary, "milliseconds": {**found, **served}})


def _served(folder: Path, rows: pd.DataFrame, risk: Any, quick: bool, repetitions: int) -> dict[str, dict[str, float]]:
    """What bare predictions of one point over HTTP take on either side."""
    times = []
    with suppress(ImportError):
        _boosted(folder, rows, risk, quick)
        with _serving(folder, len(rows)) as (_, ask, seconds, _cores):
            for _ in range(repetitions):
                ours, theirs = time.process_time(), seconds()
                ask(rows)
                times.append((time.process_time() - ours, seconds() - theirs))
    least = [round(1_000 * min(side), 2) for side in zip(*times, strict=True)]
    return (
        {"model server": dict(zip(("bare, on our side", "bare, on the server"), least, strict=True))} if least else {}
    )


def _asked(rows: pd.DataFrame) -> dict[str, float]:
    """The rows that a model is asked about for a curve, in those that bare predictions are asked about."""
    asked = list[int]()

    def model(frame: pd.DataFrame) -> Any:
        asked.append(len(frame))
        return frame["x0"].to_numpy() / 8 + 0.5

    def share(known: dpx.Model, name: str, smooth: bool) -> float:
        asked.clear()
        dpx.partial_dependence(table, known, name, epsilon=1, grid={name: GRID.tolist()}, smooth=smooth)
        return round(sum(asked) / (len(rows) * POINTS), 3)

    table, (one, two) = _table(rows), (dpx.Model(model, output=(0.0, 1.0), version=name) for name in "12")
    return {"private": share(one, "x0", False), "again": share(one, "x1", False), "sharpened": share(two, "x0", True)}


def _figure(times: dict[str, dict[str, list[float]]]) -> Figure:
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    ax = figure.add_subplot()
    for place, one in enumerate(times.values()):
        ratios = [a / b for a, b in zip(one["private"], one["bare"], strict=True)]
        ax.plot(ratios, [place] * len(ratios), "o", color="#1f4e79", alpha=0.7)
    ax.axvline(1.1, color="#c55a11", linestyle="--")
    ax.set_yticks(range(len(times)), list(times))
    ax.set_xlim(0)
    ax.set_xlabel("time of a private curve / time of the bare predictions")
    return figure


# On a GPU -------------------------------------------------------------------------------------------------------------


def _network(width: int, layers: int) -> Any:
    import torch

    torch.manual_seed(0)
    parts: list[Any] = [torch.nn.Linear(COLUMNS, width), torch.nn.ReLU()]
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(width, 1), torch.nn.Sigmoid()).eval()


def _gpu(options: Namespace) -> None:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    size, width, points = (50_000, 64, 3) if options.quick else (10**7, 2048, 10)
    rows, _ = _made(size)
    network, grid = _network(width, 3), np.linspace(-2, 2, points)
    placed = _network(width, 3).to(device)
    values = rows.to_numpy(np.float32)

    def bare(batch: int) -> float:
        start, total = time.perf_counter(), 0.0
        with torch.inference_mode():
            for point in grid:
                for begin in range(0, size, batch):
                    mine = values[begin : begin + batch].copy()
                    mine[:, 0] = point
                    total += float(placed(torch.from_numpy(mine).to(device)).cpu().numpy().sum())
        return time.perf_counter() - start

    ledger = dpx.open_ledger("sqlite:///:memory:")

    def private(threads: bool) -> float:
        table = dpx.PrivateTable(
            rows,
            domain=DOMAIN,
            budget=dpx.Budget(10**6),
            relation="replace-one",
            ledger=ledger,
            name="rows",
            version=str(time.perf_counter_ns()),
        )
        start = time.perf_counter()
        model = dpx.Model(network, output=(0.0, 1.0), name="network", version="1", thread_safe=threads)
        dpx.partial_dependence(table, model, "x0", epsilon=1, grid={"x0": grid.tolist()})
        return time.perf_counter() - start

    times = dict[str, list[float]]()
    for _ in range(options.repetitions or (1 if options.quick else 3)):
        for batch in (2**14, 2**17, 2**20):
            times.setdefault(f"bare, batches of {batch}", []).append(bare(batch))
        times.setdefault("private", []).append(private(False))
        times.setdefault("private, thread_safe=True", []).append(private(True))
        print(json.dumps({name: round(one[-1], 2) for name, one in times.items()}), flush=True)
    middle = {name: statistics.median(one) for name, one in times.items()}
    best = min(value for name, value in middle.items() if name.startswith("bare"))
    ratios = {name: round(value / best, 3) for name, value in middle.items() if name.startswith("private")}
    machine = torch.cuda.get_device_name() if device == "cuda" else "no GPU: on the processor"
    summary = {"device": machine, "torch": torch.__version__, "rows": size, "points": points, "width": width}
    report.write("models-gpu", options, {"summary": {**summary, "ratios": ratios}, "seconds": times})
