"""Who may be asked by several threads: by default only known libraries, and nobody who mixes up answers."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.special
from sklearn.cluster import KMeans
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, SplineTransformer, StandardScaler
from sklearn.svm import SVC

import dpexplain as dpx
from dpexplain.data.rows import Rows
from dpexplain.models import safe_by_default

DOMAIN = dpx.Domain({"a": dpx.Numeric(0, 1), "b": dpx.Numeric(0, 1)})
X = np.random.default_rng(0).random((60, 2))
Y = (X.sum(axis=1) > 1).astype(int)


class Wrapper:
    """Keeps its input on itself, as home-made wrappers do."""

    def predict(self, inputs):
        self.inputs = inputs
        self.prepare()
        return self.inputs[:, 0]

    def prepare(self):
        self.means = [float(self.inputs[:, 0].mean()) for _ in range(5)]


class OwnStep(StandardScaler):
    """A step of one's own."""


def own(values):
    return values


@functools.wraps(np.log1p)
def disguised(values):
    return values


@pytest.mark.parametrize(
    ("model", "safe"),
    [
        (LogisticRegression(), True),
        (RandomForestClassifier(5), True),
        (GradientBoostingClassifier(n_estimators=5), True),
        (HistGradientBoostingRegressor(max_iter=3), True),
        (KNeighborsRegressor(3), True),
        (make_pipeline(StandardScaler(), SplineTransformer(), SVC()), True),
        (
            make_pipeline(FunctionTransformer(np.log1p), OneHotEncoder(handle_unknown="ignore"), LinearRegression()),
            True,
        ),
        (make_pipeline(OwnStep(), LinearRegression()), False),
        (make_pipeline(FunctionTransformer(own), LinearRegression()), False),
        (make_pipeline(FunctionTransformer(disguised), LinearRegression()), False),
        (make_pipeline(FunctionTransformer(np.vectorize(own)), LinearRegression()), False),
        (make_pipeline(FunctionTransformer(np.vectorize(np.log1p)), LinearRegression()), False),
        (make_pipeline(FunctionTransformer(np.frompyfunc(own, 1, 1)), LinearRegression()), False),
        (make_pipeline(FunctionTransformer(functools.partial(own)), LinearRegression()), False),
        (make_pipeline(FunctionTransformer(OwnStep().fit(X).transform), LinearRegression()), False),
        (make_pipeline(FunctionTransformer(functools.partial(np.clip, a_min=0, a_max=1)), LinearRegression()), True),
        (make_pipeline(FunctionTransformer(scipy.special.expit), LinearRegression()), True),
        (make_pipeline(FunctionTransformer(StandardScaler().fit(X).transform), LinearRegression()), True),
        (make_pipeline(make_pipeline(FunctionTransformer(lambda x: x)), LinearRegression()), False),
        (KNeighborsRegressor(3, metric=lambda x, y: float(abs(x - y).sum())), False),
        (SVC(kernel=lambda x, y: x @ y.T), False),
    ],
    ids=lambda value: None if isinstance(value, bool) else repr(value)[:24],
)
def test_the_default(model, safe):
    model.fit(X, Y)
    assert safe_by_default(model) is safe
    label = {"label": 1} if hasattr(model, "predict_proba") else {}
    assert dpx.Model(model, output=(0, 1), **label).thread_safe is safe
    assert dpx.Model(model, output=(0, 1), thread_safe=not safe, **label).thread_safe is not safe


def test_functions_and_wrappers_are_not_safe():
    assert not dpx.Model(Wrapper(), output=(0, 1)).thread_safe
    assert not dpx.Model(LinearRegression().fit(X, Y).predict, output=(0, 1)).thread_safe


@pytest.mark.parametrize(("booster", "safe"), [("gbtree", True), (None, True), ("gblinear", False)])
def test_boosted_trees_are_safe_and_the_linear_booster_is_not(booster, safe):
    kind = type("XGBRegressor", (), {"__module__": "xgboost.sklearn", "predict": lambda self, x: x[:, 0]})
    model = kind()
    model.booster = booster
    assert safe_by_default(model) is safe


def test_a_wrapper_that_mixes_up_threads_is_refused():
    with pytest.raises(dpx.errors.ModelError, match="several threads") as error:
        dpx.Model(Wrapper(), output=(0, 1), thread_safe=True).checked(DOMAIN)
    assert "thread_safe=False" in error.value.hint
    dpx.Model(Wrapper(), output=(0, 1)).checked(DOMAIN)


def test_threads_are_tried_in_blocks_of_the_size_that_is_used():
    """A race that only larger calls lose."""

    class Late(Wrapper):
        def prepare(self):
            if len(self.inputs) >= 1000:
                time.sleep(0.01)

    with pytest.raises(dpx.errors.ModelError, match="several threads"):
        dpx.Model(Late(), output=(0, 1), thread_safe=True).checked(DOMAIN, rows=20_000, exact=True)


def test_clusterings_follow_the_same_rule():
    fitted = KMeans(2, n_init=1, random_state=0).fit(X)
    assert dpx.Clustering.of(fitted, domain=DOMAIN).thread_safe
    pipeline = make_pipeline(OwnStep(), KMeans(2, n_init=1, random_state=0)).fit(X)
    assert not dpx.Clustering.of(pipeline, domain=DOMAIN).thread_safe


def test_rows_are_counted_once(make_table):
    """Batches of one flag each: in threads, the wrapper would count some twice and others never."""
    domain = dpx.Domain({"flag": dpx.Numeric(0, 1), "z": dpx.Numeric(0, 1)})
    rows = pd.DataFrame({"flag": np.repeat([1.0, 0.0], [2**14, 3 * 2**14]), "z": 0.5})
    table = make_table(rows, domain=domain, exact=True)
    curve = dpx.partial_dependence(table, dpx.Model(Wrapper(), output=(0, 1)), "z", epsilon=1, grid={"z": 2}, rug=False)
    assert curve.raw.tolist() == [0.25, 0.25]


@pytest.mark.parametrize(("safe", "mixed"), [(False, False), (True, True)])
def test_two_releases_at_once_take_turns_with_a_model_that_one_thread_asks(safe, mixed):
    """A service runs releases and free questions side by side: whoever asks hears about their own rows."""
    met = threading.Barrier(2)

    class Keeps:
        meet = False

        def predict(self, inputs):
            self.inputs = inputs
            if self.meet:
                with contextlib.suppress(threading.BrokenBarrierError):  # nobody else gets in
                    met.wait(0.5)
            return self.inputs[:, 0]

    model = dpx.Model(Keeps(), output=(0, 1), name="keeps", version="1", features=["a", "b"], as_array=True)
    predictor = model.checked(DOMAIN)
    predictor.thread_safe = safe
    model.original.meet = True

    def asked(value):
        rows = Rows(DOMAIN, {name: np.full(10, value) for name in DOMAIN}, 10)
        return predictor.predict_at(predictor.inputs(rows), {}).tolist() == [value] * 10

    with ThreadPoolExecutor(2) as pool:
        right = list(pool.map(asked, [0.25, 0.75]))
    assert all(right) is not mixed


@pytest.mark.posix
@pytest.mark.filterwarnings("ignore:.*use of fork")  # of Python 3.12, where other threads run: that is what is tried
def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent():
    """The thread that asks in the parent does not exist in the child, so it would never give its turn back."""
    inside, leave = threading.Event(), threading.Event()

    class Waits:
        wait = False

        def predict(self, inputs):
            if self.wait:
                inside.set()
                leave.wait(30)
            return inputs[:, 0]

    model = dpx.Model(Waits(), output=(0, 1), name="waits", version="1", features=["a", "b"], as_array=True)
    predictor = model.checked(DOMAIN)
    assert not predictor.thread_safe
    rows = Rows(DOMAIN, {name: np.full(10, 0.25) for name in DOMAIN}, 10)
    model.original.wait = True
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(lambda: predictor.predict_at(predictor.inputs(rows), {}))
        assert inside.wait(30)
        child = os.fork()
        if child == 0:  # by its status the child says whether it could ask
            signal.alarm(20)
            model.original.wait = False
            os._exit(0 if predictor.predict_at(predictor.inputs(rows), {}).tolist() == [0.25] * 10 else 1)
        _, status = os.waitpid(child, 0)
        leave.set()
        asking.result()
    assert os.waitstatus_to_exitcode(status) == 0
