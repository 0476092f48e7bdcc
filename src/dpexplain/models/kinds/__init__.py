"""The kinds of models that are known by their file, their object or their address.

Each kind has one small module with an `Adapter`: an estimator that takes clean rows, encodes them as the model was
trained, and answers with numbers. What is checked, how rows are laid out in blocks and what counts as a failure is the
same for all kinds (`models.check`, `models.predictor`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from dpexplain.errors import ModelError
from dpexplain.models.kinds.base import Adapter, Lines, folder_digest

PICKLES = (".pkl", ".pickle", ".joblib", ".sav", ".dill", ".cloudpickle")
SAFE_WAYS = (
    "save the model as a file that holds no code: skops (skops.io.dump), ONNX, or the own format of XGBoost (.ubj), "
    "LightGBM (.txt), CatBoost (.cbm) or TorchScript (.pt); or load a file of your own in a module of yours, "
    'and hand over the object: import = "package.module:object" in a project file, dpx.Model(object, ...) in Python'
)


@dataclass(frozen=True)
class Kind:
    """One kind of models, and how it is recognised.

    extra     the extra of dpexplain that installs what it needs
    suffixes  of its files
    objects   (library, class) of its objects in memory
    """

    name: str
    extra: str
    home: str
    suffixes: tuple[str, ...] = ()
    objects: tuple[tuple[str, str], ...] = ()

    @property
    def adapter(self) -> type[Adapter]:
        module, _, name = self.home.partition(":")
        found: type[Adapter] = getattr(import_module(f"dpexplain.models.kinds.{module}"), name)
        return found


HTTP = Kind("Open Inference Protocol", "", "http:Served")
MLFLOW = Kind("MLflow", "mlflow", "mlflow:MLflow", objects=(("mlflow", "PyFuncModel"),))
KINDS = (
    Kind("ONNX", "onnx", "onnx:Onnx", (".onnx",), (("onnx", "ModelProto"),)),
    Kind("XGBoost", "xgboost", "xgboost:XGBoost", (".json", ".ubj"), (("xgboost", "Booster"),)),
    Kind("LightGBM", "lightgbm", "lightgbm:LightGBM", (".txt",), (("lightgbm", "Booster"),)),
    Kind("CatBoost", "catboost", "catboost:Cat", (".cbm",), (("catboost", "CatBoost"),)),
    Kind("PyTorch", "torch", "torch:Torch", (".pt", ".pt2", ".ts"), (("torch", "Module"),)),
    Kind("skops", "skops", "skops:Skops", (".skops",)),
    MLFLOW,
    HTTP,
)


@dataclass(frozen=True)
class Recognised:
    """A model as an estimator or a function, and the digest of the file that it was read from."""

    model: Any
    digest: str | None = None


def recognised(
    model: Any, classes: Sequence[Any] | None = None, options: Mapping[str, Any] | None = None
) -> Recognised:
    """What a caller gives as a model: a path, an address, an object of a known kind, or any estimator or function."""
    kind, content, found_at = None, model, None
    if isinstance(model, str) and model.startswith(("http://", "https://")):
        kind = HTTP
    elif isinstance(model, str | PathLike):
        path = Path(model)
        kind, content = _file(path)
        found_at = hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else folder_digest(path)
    elif not isinstance(model, type):
        kind = next((one for one in KINDS for known in one.objects if _is_a(model, *known)), None)
    if kind is not None:
        return Recognised(kind.adapter.of(kind, content, classes, dict(options or {})), found_at)
    if options:
        raise ModelError(
            "options belong to models of a known kind, such as an ONNX file or a model server.", hint="leave them out"
        )
    if classes is None:
        return Recognised(model)
    if hasattr(model, "predict") or not callable(model):
        raise ModelError(
            "classes name the columns of an output that has no names of its own; an estimator knows its classes.",
            hint="leave classes out",
        )
    return Recognised(Lines(model, classes))


def _file(path: Path) -> tuple[Kind, Any]:
    """The kind of a file or folder, and the bytes of the file: they are read once, and the model is made from them."""
    if path.is_dir():
        if (path / "MLmodel").is_file():
            return MLFLOW, path
        raise ModelError(f"the folder {path.name} holds no model.", hint="an MLflow model has a file MLmodel in it")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"there is no model file {path.name}.", hint="say where it lies") from None
    except OSError as error:
        raise ModelError(f"the model file {path.name} cannot be read: {error.strerror}.") from None
    suffix = path.suffix.lower()
    if suffix in PICKLES or _is_pickle(content):
        raise ModelError(
            f"{path.name} is a pickle: loading it would run whatever code is in it, so it is refused.", hint=SAFE_WAYS
        )
    kind = next((one for one in KINDS if suffix in one.suffixes), None)
    if kind is None:
        known = ", ".join(end for one in KINDS for end in one.suffixes)
        raise ModelError(f"{path.name} is no model file of a known kind.", hint=f"known are {known}, MLflow folders")
    return kind, content


def _is_pickle(content: bytes) -> bool:
    return len(content) > 2 and content[0] == 0x80 and content[1] in range(2, 6) and content.endswith(b".")


def _is_a(model: Any, library: str, name: str) -> bool:
    """Whether a model is an object of this class, or of one made from it, without importing the library."""
    return any(one.__name__ == name and str(one.__module__).partition(".")[0] == library for one in type(model).__mro__)


__all__ = ["KINDS", "SAFE_WAYS", "Adapter", "Kind", "Lines", "Recognised", "recognised"]
