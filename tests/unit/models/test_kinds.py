"""Real models of every kind: the same answers as the library gives, files that changed, and what is refused."""

from __future__ import annotations

import importlib
import pickle
import re
import shutil
import tomllib
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpexplain as dpx
from dpexplain.data import PublicRandom
from dpexplain.models.kinds import KINDS
from dpexplain.models.predictor import frame_of

pytestmark = pytest.mark.filterwarnings("ignore:.*type hints.*:UserWarning")  # of MLflow, about models in code
DOMAIN = dpx.Domain(
    {
        "age": dpx.Numeric(20, 79, integer=True),
        "sex": dpx.Categorical(["M", "F"]),  # not in the order in which models were trained
        "income": dpx.Numeric(-3, 3, missing="nan"),
    }
)
NUMBERS = dpx.Domain({"age": dpx.Numeric(20, 79, integer=True), "income": dpx.Numeric(-3, 3)})
draw = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "age": draw.integers(20, 80, 600),
        "sex": draw.choice(["F", "M"], 600),
        "income": np.where(draw.random(600) < 0.1, np.nan, draw.normal(size=600).clip(-3, 3)),
    }
)
RISK = (PEOPLE["age"] / 80 + 0.4 * (PEOPLE["sex"] == "F") + 0.1 * PEOPLE["income"].fillna(2)).to_numpy()
SICK = (RISK > 0.8).astype(int)
THREE = np.digitize(RISK, [0.6, 1.0])


@dataclass
class Case:
    """A trained model: its file, what the library says about a DataFrame, and what `dpx.Model` is told."""

    path: Path
    truth: Callable[[pd.DataFrame], Any]
    options: dict[str, Any]
    again: Callable[[], None] | None = None  # writes another model to the same path
    domain: dpx.Domain = field(default_factory=lambda: DOMAIN)
    trained: Any = None


def onnx_columns(folder: Path) -> Case:
    pytest.importorskip("onnxruntime")
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    people = PEOPLE.fillna(0.0)
    shapes = [("age", Int64TensorType([None, 1])), ("sex", StringTensorType([None, 1]))]
    shapes += [("income", FloatTensorType([None, 1]))]

    def fit(y: Any) -> Any:
        columns = make_column_transformer(
            (OneHotEncoder(), ["sex"]), (StandardScaler(), ["age"]), (StandardScaler(), ["income"])
        )
        return make_pipeline(columns, LogisticRegression()).fit(people, y)

    def save(pipeline: Any) -> None:
        made = skl2onnx.convert_sklearn(pipeline, initial_types=shapes, options={"zipmap": False})
        (folder / "risk.onnx").write_bytes(made.SerializeToString())

    pipeline = fit(SICK)
    save(pipeline)
    domain = dpx.Domain({**DOMAIN, "income": dpx.Numeric(-3, 3)})
    options = {"classes": ["well", "sick"], "label": "sick"}
    truth = lambda rows: pipeline.predict_proba(rows.assign(sex=rows["sex"].astype(object)))[:, 1]  # noqa: E731
    return Case(folder / "risk.onnx", truth, options, lambda: save(fit(RISK > 0.9)), domain)


def onnx_matrix(folder: Path) -> Case:
    pytest.importorskip("onnxruntime")
    skl2onnx = pytest.importorskip("skl2onnx")
    from sklearn.ensemble import GradientBoostingRegressor

    people = PEOPLE[["age", "income"]].fillna(0.0)
    model = GradientBoostingRegressor(n_estimators=5).fit(people.to_numpy(), RISK)
    made = skl2onnx.to_onnx(model, people.to_numpy(np.float32)[:1])
    (folder / "risk.onnx").write_bytes(made.SerializeToString())
    return Case(folder / "risk.onnx", lambda rows: model.predict(rows.to_numpy()), {}, None, NUMBERS, made)


def xgboost_file(folder: Path, suffix: str = "ubj") -> Case:
    library = pytest.importorskip("xgboost")
    people = PEOPLE.assign(sex=PEOPLE["sex"].astype("category"))

    def train(y: Any) -> Any:
        data = library.DMatrix(people, y, enable_categorical=True)
        return library.train({"objective": "binary:logistic", "seed": 0, "nthread": 1}, data, 8)

    path, booster = folder / f"risk.{suffix}", train(SICK)
    booster.save_model(path)
    truth = lambda rows: booster.predict(library.DMatrix(rows, enable_categorical=True))  # noqa: E731
    return Case(path, truth, {}, lambda: train(RISK > 0.9).save_model(path), trained=booster)


def xgboost_json(folder: Path) -> Case:
    return xgboost_file(folder, "json")


def xgboost_classes(folder: Path) -> Case:
    library = pytest.importorskip("xgboost")
    people = PEOPLE[["age", "income"]].to_numpy()
    parameters = {"objective": "multi:softprob", "num_class": 3, "nthread": 1}
    booster = library.train(parameters, library.DMatrix(people, THREE), 5)
    booster.save_model(folder / "risk.json")
    truth = lambda rows: booster.predict(library.DMatrix(rows.to_numpy()))[:, 2]  # noqa: E731
    return Case(folder / "risk.json", truth, {"label": 2}, None, NUMBERS, booster)


def lightgbm_file(folder: Path) -> Case:
    library = pytest.importorskip("lightgbm")
    people = PEOPLE.assign(sex=PEOPLE["sex"].astype("category"))

    def train(y: Any) -> Any:
        parameters = {"objective": "binary", "verbose": -1, "num_threads": 1}
        return library.train(parameters, library.Dataset(people, y), 8)

    path, booster = folder / "risk.txt", train(SICK)
    booster.save_model(path)
    return Case(path, booster.predict, {}, lambda: train(RISK > 0.9).save_model(path) and None, trained=booster)


def catboost_file(folder: Path) -> Case:
    library = pytest.importorskip("catboost")

    def train(y: Any) -> Any:
        model = library.CatBoostClassifier(
            iterations=8, thread_count=1, verbose=False, allow_writing_files=False, random_seed=0
        )
        return model.fit(PEOPLE, y, cat_features=["sex"])

    path, model = folder / "risk.cbm", train(SICK)
    model.save_model(str(path))
    truth = lambda rows: model.predict_proba(rows.assign(sex=rows["sex"].astype(str)))[:, 1]  # noqa: E731
    return Case(path, truth, {"label": 1}, lambda: train((RISK > 0.9).astype(int)).save_model(str(path)), trained=model)


def catboost_numbers(folder: Path) -> Case:
    library = pytest.importorskip("catboost")
    model = library.CatBoostRegressor(
        iterations=5, thread_count=1, loss_function="Poisson", verbose=False, allow_writing_files=False
    )
    model.fit(PEOPLE[["age", "income"]], RISK)
    model.save_model(str(folder / "risk.cbm"))
    return Case(folder / "risk.cbm", model.predict, {"output": (0, 3)}, None, NUMBERS, model)


def module() -> Any:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1)]
    return torch.nn.Sequential(*layers, torch.nn.Sigmoid()).eval()


def asked(network: Any) -> Callable[[pd.DataFrame], Any]:
    import torch

    return lambda rows: network(torch.tensor(rows.to_numpy(np.float32))).detach().numpy()[:, 0]


def torch_script(folder: Path) -> Case:
    network = module()
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is an older format than torch.export
        traced = torch.jit.script(network)
        torch.jit.save(traced, folder / "risk.pt")
    return Case(folder / "risk.pt", asked(network), {}, None, NUMBERS, traced)


def torch_exported(folder: Path) -> Case:
    network = module()
    import torch

    rows = {"input": {0: torch.export.Dim("rows", min=2)}}
    torch.export.save(torch.export.export(network, (torch.zeros(4, 2),), dynamic_shapes=rows), folder / "risk.pt2")
    return Case(folder / "risk.pt2", asked(network), {"options": {"trusted": True}}, None, NUMBERS)


def skops_file(folder: Path) -> Case:
    skops = pytest.importorskip("skops.io")
    from sklearn.linear_model import LogisticRegression

    people = PEOPLE[["age", "income"]].fillna(0.0)
    model = LogisticRegression().fit(people, SICK)
    skops.dump(model, folder / "risk.skops")

    def again() -> None:
        skops.dump(LogisticRegression(C=0.01).fit(people, SICK), folder / "risk.skops")

    truth = lambda rows: model.predict_proba(rows)[:, 1]  # noqa: E731
    return Case(folder / "risk.skops", truth, {"label": 1}, again, NUMBERS)


CODE = """
import mlflow.pyfunc


class Risk(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        if model_input["sex"].map(type).ne(str).any():
            raise TypeError
        return (model_input["age"] / 100 + 0.1 * (model_input["sex"] == "F")).to_numpy() - {less}


mlflow.models.set_model(Risk())
"""


def mlflow_folder(folder: Path) -> Case:
    pytest.importorskip("mlflow.pyfunc")
    import mlflow.pyfunc
    from mlflow.models import infer_signature

    def save(less: float) -> None:
        shutil.rmtree(folder / "risk", ignore_errors=True)
        (folder / "code.py").write_text(CODE.format(less=less))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            signature = infer_signature(PEOPLE, np.zeros(3))
            mlflow.pyfunc.save_model(
                folder / "risk", python_model=str(folder / "code.py"), signature=signature, pip_requirements=[]
            )

    save(0.05)
    truth = lambda rows: rows["age"] / 100 + 0.1 * (rows["sex"] == "F").to_numpy() - 0.05  # noqa: E731
    return Case(folder / "risk", truth, {"options": {"trusted": True}}, lambda: save(0.01))


SEASONS = """
import mlflow.pyfunc


class Winter(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return (model_input["day"].dt.month < 4).to_numpy() * 0.5 + model_input["age"].to_numpy() / 200


mlflow.models.set_model(Winter())
"""


def mlflow_dates(folder: Path) -> Case:
    pytest.importorskip("mlflow.pyfunc")
    import mlflow.pyfunc
    from mlflow.models import infer_signature

    people = pd.DataFrame({"age": PEOPLE["age"], "day": pd.Timestamp("2020-01-31")})
    (folder / "code.py").write_text(SEASONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        signature = infer_signature(people, np.zeros(3))
        mlflow.pyfunc.save_model(
            folder / "risk", python_model=str(folder / "code.py"), signature=signature, pip_requirements=[]
        )
    domain = dpx.Domain({"age": DOMAIN["age"], "day": dpx.Date("2020-01-01", "2021-12-31")})
    truth = lambda rows: (rows["day"].dt.month < 4) * 0.5 + rows["age"] / 200  # noqa: E731
    return Case(folder / "risk", truth, {"options": {"trusted": True}}, None, domain)


CASES = {
    made.__name__: made
    for made in (
        *(onnx_columns, onnx_matrix, xgboost_file, xgboost_json, xgboost_classes, lightgbm_file, catboost_file),
        *(catboost_numbers, torch_script, torch_exported, skops_file, mlflow_folder),
        mlflow_dates,
    )
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    made: dict[str, Case] = {}

    def case(name: str) -> Case:
        if name not in made:
            made[name] = CASES[name](tmp_path_factory.mktemp(name))
        return made[name]

    return case


def opened(case: Case, source: Any = None, **options: Any) -> dpx.Model:
    told = {"output": (0, 1), "version": "1", **case.options, **options}
    return dpx.Model(case.path if source is None else source, **told)


@pytest.mark.parametrize("name", CASES)
def test_it_answers_as_the_library_does(cases, name):
    case = cases(name)
    model = opened(case)
    predictor = model.checked(case.domain, rows=2_000)
    assert predictor.block == 256, "rows are asked about in blocks of the usual size"
    rows = PublicRandom(3).rows(case.domain, 300)
    answers = predictor.predict_at(predictor.inputs(rows), {})
    frame = frame_of(case.domain, predictor.features, rows)
    np.testing.assert_allclose(answers, np.asarray(case.truth(frame)), atol=2e-6)
    assert np.ptp(answers) > 0.02
    held = predictor.predict_at(predictor.inputs(rows), {"age": 40.0})
    np.testing.assert_allclose(held, np.asarray(case.truth(frame.assign(age=40))), atol=2e-6)


# whether several threads may ask at once by default, and how far answers may be apart on two machines
THREADS = ("onnx_columns", "onnx_matrix", "xgboost_file", "xgboost_json", "xgboost_classes", "skops_file")
SINGLE = (*THREADS[:5], "torch_script", "torch_exported")


@pytest.mark.parametrize("name", CASES)
def test_threads_and_precision_are_those_of_the_table_in_the_guide(cases, name):
    model = opened(cases(name))
    assert model.thread_safe is (name in THREADS)
    assert model.checked(cases(name).domain, rows=2_000).precision == (1e-6 if name in SINGLE else 1e-9)


def test_the_linear_booster_is_asked_by_one_thread():
    library = pytest.importorskip("xgboost")
    people = library.DMatrix(PEOPLE[["age", "income"]].fillna(0.0), RISK)
    booster = library.train({"booster": "gblinear", "nthread": 1}, people, 2)
    assert not dpx.Model(booster, output=(0, 2)).thread_safe


ROOT = Path(__file__).parents[3]


def test_the_guide_and_the_readme_have_every_kind_with_its_extra_and_its_files():
    """A section and a row for each kind; every file that is named is one that is known, and every extra exists."""
    guide, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/models.md", "README.md"))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    rows = re.findall(r"^\| \[.*?\]\(#([\w-]+)\) \|(.*?)\|(.*?)\|", guide, re.MULTILINE)
    told = {anchor: (handed, extra.strip().strip("`")) for anchor, handed, extra in rows}
    named = {kind.extra or "a-model-server": kind for kind in KINDS}
    assert set(told) == {"pytorch" if name == "torch" else name for name in named}
    for name, kind in named.items():
        handed, extra = told["pytorch" if name == "torch" else name]
        assert extra == (kind.extra or "none")
        assert not kind.extra or kind.extra in extras
        files = set(re.findall(r"`(\.\w+)`", handed))
        assert files <= set(kind.suffixes)
        assert bool(files) is bool(kind.suffixes)
    table = readme[readme.index("| you have | hand over | extra |") :].partition("\n\n")[0]
    linked = set(re.findall(r"docs/models\.md#([\w-]+)", table))
    assert linked == set(told)
    assert set(re.findall(r"`([a-z]+)`", table)) == {kind.extra for kind in KINDS if kind.extra}
    assert {".onnx", ".ubj", ".txt", ".cbm", ".pt", ".pt2"} <= set(re.findall(r"risk(\.\w+)", table))
    assert set(re.findall(r"risk(\.\w+)", table)) <= {end for kind in KINDS for end in kind.suffixes}
    sections = [part.partition("\n") for part in guide.split("\n## ")[1:]]
    shown = {title.lower().replace(" ", "-") for title, _, text in sections if "```python\n# needs " in text}
    assert set(told) <= shown, "an example that a test runs (tests/unit/test_docs.py)"


@pytest.mark.parametrize("name", CASES)
def test_it_can_be_pickled_and_answers_as_before(cases, name):
    case = cases(name)
    predictor = opened(case).checked(case.domain, rows=2_000)
    again = pickle.loads(pickle.dumps(predictor))
    rows = PublicRandom(4).rows(case.domain, 50)
    one, two = (each.predict_at(each.inputs(rows), {}) for each in (predictor, again))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("torch_exported", "skops_file")])
def test_an_object_is_known_like_its_file(cases, name):
    case = cases(name)
    if case.trained is None:
        pytest.skip("this kind has files alone")
    one = opened(case).checked(case.domain, rows=2_000)
    two = opened(case, case.trained).checked(case.domain, rows=2_000)
    np.testing.assert_allclose(one.answers, two.answers, atol=1e-6)
    assert opened(case, case.trained).file_digest is None


@pytest.mark.parametrize("name", ["onnx_columns", "xgboost_file", "lightgbm_file", "catboost_file", "skops_file"])
def test_a_file_that_changed_under_the_same_version_is_refused(make_table, tmp_path, name):
    case = CASES[name](tmp_path)
    frame = PEOPLE if "sex" in case.domain else PEOPLE[["age", "income"]]
    table = make_table(frame, domain=case.domain, budget=dpx.Budget(100, 1e-6))
    dpx.partial_dependence(table, opened(case), "age", epsilon=1)
    spent = table.ledger.statement(table.name).spent.amount
    dpx.partial_dependence(table, opened(case), "income", epsilon=1)
    assert table.ledger.statement(table.name).spent.amount > spent
    spent = table.ledger.statement(table.name).spent.amount
    case.again()
    with pytest.raises(dpx.errors.ModelError, match="was read from another file") as error:
        dpx.partial_dependence(table, opened(case), "age", epsilon=1)
    assert "new version" in error.value.hint
    assert table.ledger.statement(table.name).spent.amount == spent
    dpx.partial_dependence(table, opened(case, version="2"), "age", epsilon=1)


def test_a_folder_that_changed_under_the_same_version_is_refused(make_table, tmp_path):
    case = mlflow_folder(tmp_path)
    table = make_table(PEOPLE, domain=case.domain, budget=dpx.Budget(100, 1e-6))
    table.predictor(opened(case))
    requirements = case.path / "requirements.txt"
    requirements.write_text(requirements.read_text() + "# another\n")  # the answers stay what they are
    with pytest.raises(dpx.errors.ModelError, match="was read from another file"):
        table.predictor(opened(case))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.extra], ids=lambda kind: kind.name)
def test_a_missing_package_is_named_with_its_extra(kind, tmp_path, monkeypatch):
    adapters = importlib.import_module(f"dpexplain.models.kinds.{kind.home.partition(':')[0]}")

    def missing(package: str) -> Any:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(adapters, "needed", missing)
    path = tmp_path / f"model{kind.suffixes[0] if kind.suffixes else ''}"
    if kind.suffixes:
        path.write_bytes(b"tree\nfeature_names=a\n")
    else:
        path.mkdir()
        (path / "MLmodel").write_text("")
    with pytest.raises(dpx.errors.ModelError, match="needs the package") as error:
        dpx.Model(path, output=(0, 1), options={"trusted": True} if kind.name == "MLflow" else None)
    assert f"dpexplain[{kind.extra}]" in error.value.hint


@pytest.mark.parametrize("suffix", [end for kind in KINDS for end in kind.suffixes])
def test_a_file_that_is_none_of_its_kind(tmp_path, suffix):
    (tmp_path / f"model{suffix}").write_bytes(b"no model at all")
    with pytest.raises(dpx.errors.ModelError) as error:
        dpx.Model(tmp_path / f"model{suffix}", output=(0, 1))
    assert error.value.hint
    assert "no model at all" not in str(error.value)


@pytest.mark.parametrize("name", ["model.pkl", "model.joblib", "model.json", "model.onnx"])
def test_a_pickle_is_refused_by_its_name_and_by_its_content(tmp_path, name):
    ran = []

    class Runs:
        def __reduce__(self):
            return ran.append, (1,)

    (tmp_path / name).write_bytes(pickle.dumps(Runs()))
    with pytest.raises(dpx.errors.ModelError, match="is a pickle") as error:
        dpx.Model(tmp_path / name, output=(0, 1))
    assert all(way in error.value.hint for way in ("skops", "ONNX", "import ="))
    assert ran == []


def test_a_file_of_torch_save_is_a_pickle(tmp_path):
    network = module()
    import torch

    torch.save(network, tmp_path / "model.pt")
    with pytest.raises(dpx.errors.ModelError, match="file of torch.save is a pickle"):
        dpx.Model(tmp_path / "model.pt", output=(0, 1))
    with pytest.raises(dpx.errors.ModelError, match="training mode"):
        dpx.Model(network.train(), output=(0, 1))


def test_a_file_of_torch_export_runs_code_so_it_must_be_trusted(tmp_path):
    """Its example inputs are a pickle, and its sizes are evaluated as Python: both ran what was put into them."""
    case, ran = torch_exported(tmp_path), tmp_path / "ran"

    class Runs:
        def __reduce__(self):
            return Path.touch, (ran,)

    def hostile(name: str, content: bytes) -> bytes:
        if name.endswith("sample_inputs/model.pt"):
            return pickle.dumps(Runs())
        if name.endswith("models/model.json"):
            return content.replace(b"Symbol('s", f"open('{ran}', 'w') and Symbol('s".encode())
        return content

    with zipfile.ZipFile(case.path) as kept, zipfile.ZipFile(tmp_path / "hostile.pt2", "w") as made:
        for name in kept.namelist():
            made.writestr(name, hostile(name, kept.read(name)))
    for path in (case.path, tmp_path / "hostile.pt2"):
        with pytest.raises(dpx.errors.ModelError, match="runs whatever is in them") as error:
            dpx.Model(path, output=(0, 1))
        assert "trusted" in error.value.hint
        assert "TorchScript" in error.value.hint
    assert not ran.exists()


def test_a_folder_that_changed_since_its_digest_was_taken_is_not_loaded_again(tmp_path):
    """A copy in another process loads the folder anew."""
    case = mlflow_folder(tmp_path)
    adapter = opened(case).original
    alike = pickle.loads(pickle.dumps(adapter))
    assert alike._live_model is not None
    changed = pickle.loads(pickle.dumps(adapter))
    (case.path / "another.txt").write_text("x")
    with pytest.raises(dpx.errors.ModelError, match="changed since"):
        _ = changed._live_model


def test_what_is_no_model():
    for source, message in [("nowhere.onnx", "no model file"), ("http://host/model", "no address of a model")]:
        with pytest.raises(dpx.errors.ModelError, match=message):
            dpx.Model(source, output=(0, 1))
    with pytest.raises(dpx.errors.ModelError, match="options belong to"):
        dpx.Model(lambda rows: rows["a"], output=(0, 1), options={"output": "x"})


def test_folders_and_other_files(tmp_path):
    with pytest.raises(dpx.errors.ModelError, match="holds no model"):
        dpx.Model(tmp_path, output=(0, 1))
    (tmp_path / "model.h5").write_bytes(b"x")
    with pytest.raises(dpx.errors.ModelError, match="no model file of a known kind"):
        dpx.Model(tmp_path / "model.h5", output=(0, 1))
    (tmp_path / "MLmodel").write_text("")
    pytest.importorskip("mlflow")
    with pytest.raises(dpx.errors.ModelError, match="runs code") as error:
        dpx.Model(tmp_path, output=(0, 1))
    assert "trusted" in error.value.hint


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("xgboost_file", dpx.Categorical(["M", "F", "X"]), "declares the category 'X'"),
        ("onnx_columns", dpx.Categorical(["M", "F", "X"]), "fails on synthetic rows"),
        ("onnx_matrix", dpx.Categorical(["M", "F"]), "text categories"),
        ("onnx_matrix", dpx.Numeric(0, 1), "takes 2 columns, and 3 are declared"),
        ("lightgbm_file", None, "does not declare: 'sex'"),
    ],
)
def test_other_inputs_than_the_model_was_trained_on(cases, name, column, message):
    case = cases(name)
    columns = {**case.domain} | ({} if column is None else {"sex": column})
    if column is None:
        del columns["sex"]
    with pytest.raises(dpx.errors.ModelError, match=message):
        opened(case).checked(dpx.Domain(columns))


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("skops_file", "mlflow_dates")])
def test_a_date_is_never_taken_for_a_number_or_a_word(cases, name):
    """A file does not tell what numbers dates were in training: days, seconds, or something else."""
    case = cases(name)
    told = {"features": ["age", "income"]} if case.domain is NUMBERS else {}
    for column in ("age", "sex") if "sex" in case.domain else ("age",):
        domain = dpx.Domain({**case.domain, column: dpx.Date("2020-01-01", "2020-12-31")})
        with pytest.raises(dpx.errors.ModelError, match=f"{column!r}.* is a date|date, which an array"):
            opened(case, **told).checked(domain)


def test_missing_values_reach_every_kind_as_nan(cases):
    """Trees send them where they went in training; numbers made of them are the library's own."""
    for name in ("lightgbm_file", "xgboost_file", "catboost_file"):
        try:
            case = cases(name)
        except pytest.skip.Exception:
            continue
        predictor = opened(case).checked(case.domain)
        rows = PublicRandom(6).rows(case.domain, 64)
        rows.columns["income"][:] = np.nan
        truth = case.truth(frame_of(case.domain, predictor.features, rows))
        np.testing.assert_allclose(predictor.predict_at(predictor.inputs(rows), {}), truth, atol=1e-9)


def test_a_category_that_lightgbm_has_not_seen_is_missing_to_it(cases):
    case = cases("lightgbm_file")
    domain = dpx.Domain({**DOMAIN, "sex": dpx.Categorical(["X", "M", "F"])})
    predictor = opened(case).checked(domain)
    rows = PublicRandom(5).rows(domain, 100)
    truth = case.truth(frame_of(domain, predictor.features, rows))
    np.testing.assert_array_equal(predictor.predict_at(predictor.inputs(rows), {}), truth)


def test_missing_values_in_whole_numbers_are_refused_where_the_model_takes_none(cases):
    case = cases("onnx_columns")
    domain = dpx.Domain({**case.domain, "age": dpx.Numeric(20, 79, integer=True, missing="nan")})
    with pytest.raises(dpx.errors.ModelError, match="takes whole numbers"):
        opened(case).checked(domain)


def test_classes_that_are_not_those_of_the_model(cases):
    case = cases("onnx_columns")
    with pytest.raises(dpx.errors.ModelError, match="does not know the class 'ill'"):
        opened(case, label="ill")
    with pytest.raises(dpx.errors.ModelError, match="2 numbers for each row, and 3 classes are named"):
        opened(case, classes=["a", "b", "sick"]).checked(case.domain)
    with pytest.raises(dpx.errors.ModelError, match="returned shape"):
        opened(case, classes=None, label=None).checked(case.domain)
    knows = cases("catboost_file")
    with pytest.raises(dpx.errors.ModelError, match="the model knows its classes: 0, 1"):
        opened(knows, classes=["no", "yes"])


def test_functions_may_name_their_classes():
    def two(rows: pd.DataFrame) -> np.ndarray:
        risk = rows["age"].to_numpy() / 80
        return np.column_stack([1 - risk, risk])

    model = dpx.Model(two, output=(0, 1), classes=["well", "sick"], label="sick", features=["age"])
    assert model.checked(NUMBERS).answers.max() > 0.9
    with pytest.raises(dpx.errors.ModelError, match="two different names"):
        dpx.Model(two, output=(0, 1), classes=["sick"], label="sick")


def test_onnx_with_named_inputs(tmp_path):
    pytest.importorskip("onnxruntime")
    skl2onnx = pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    people = PEOPLE.fillna(0.0)
    columns = make_column_transformer((OneHotEncoder(), [2]), remainder="passthrough")
    table = people[["age", "income", "sex"]].to_numpy(object)
    pipeline = make_pipeline(columns, LinearRegression()).fit(table, RISK)
    shapes = [("numbers", FloatTensorType([None, 2])), ("words", StringTensorType([None, 1]))]
    made = skl2onnx.convert_sklearn(pipeline, initial_types=shapes)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(dpx.errors.ModelError, match="several inputs"):
        dpx.Model(tmp_path / "m.onnx", output=(0, 2))
    with pytest.raises(dpx.errors.ModelError, match="takes 2 columns, and 1 are named"):
        dpx.Model(tmp_path / "m.onnx", output=(0, 2), options={"inputs": {"numbers": ["age"], "words": ["sex"]}})
    inputs = {"numbers": ["age", "income"], "words": ["sex"]}
    model = dpx.Model(tmp_path / "m.onnx", output=(0, 2), options={"inputs": inputs})
    domain = dpx.Domain({**DOMAIN, "income": dpx.Numeric(-3, 3)})
    predictor = model.checked(domain)
    assert predictor.features == ["age", "income", "sex"]
    rows = PublicRandom(3).rows(domain, 40)
    truth = pipeline.predict(frame_of(domain, predictor.features, rows).to_numpy(object))
    np.testing.assert_allclose(predictor.predict_at(predictor.inputs(rows), {}), truth, atol=1e-5)


class TestTransform:
    def test_derived_columns_and_dates(self):
        """Days since 1970 become dates, and two columns become one."""
        domain = dpx.Domain({"day": dpx.Numeric(0, 20_000, integer=True), "age": dpx.Numeric(0, 100)})

        def derived(rows: pd.DataFrame) -> pd.DataFrame:
            day = pd.to_datetime(rows["day"], unit="D")
            return pd.DataFrame({"winter": day.dt.month.isin([12, 1, 2]), "decade": rows["age"] // 10})

        model = dpx.Model(
            lambda rows: 0.5 * rows["winter"].to_numpy() + rows["decade"].to_numpy() / 20,
            output=(0, 1),
            transform=derived,
        )
        predictor = model.checked(domain)
        rows = PublicRandom(1).rows(domain, 30)
        told = predictor.predict_at(predictor.inputs(rows), {})
        month = pd.to_datetime(rows["day"], unit="D").month
        np.testing.assert_allclose(told, 0.5 * np.isin(month, [12, 1, 2]) + rows["age"] // 10 / 20)

    @pytest.mark.parametrize(
        ("transform", "message"),
        [
            (lambda rows: rows[:-1], "another number of rows"),
            (lambda rows: rows - rows.mean(), "not always the same"),
            (lambda rows: rows["no such column"], "fails on synthetic rows"),
            (lambda rows: rows.assign(age=np.nan), "NaN or infinite"),
        ],
    )
    def test_it_is_checked_like_a_model(self, transform, message):
        model = dpx.Model(lambda rows: rows["age"].to_numpy() / 80, output=(-1, 1), transform=transform)
        with pytest.raises(dpx.errors.ModelError, match=message):
            model.checked(NUMBERS)
        with pytest.raises(dpx.errors.ModelError, match="transform is a function"):
            dpx.Model(lambda rows: rows["age"], output=(0, 1), transform=3)

    def test_with_an_estimator_that_knows_other_columns(self):
        from sklearn.linear_model import LogisticRegression

        fitted = LogisticRegression().fit(pd.DataFrame({"old": [0.0, 1, 1, 0]}), [0, 1, 1, 0])
        model = dpx.Model(
            fitted, output=(0, 1), label=1, transform=lambda rows: pd.DataFrame({"old": rows["age"] / 80})
        )
        assert not model.thread_safe
        assert model.checked(NUMBERS).features == ["age", "income"]
        narrow = dpx.Model(
            fitted,
            output=(0, 1),
            label=1,
            features=["age"],
            transform=lambda rows: pd.DataFrame({"old": rows["age"] / 80}),
        )
        assert narrow.checked(NUMBERS).features == ["age"]
