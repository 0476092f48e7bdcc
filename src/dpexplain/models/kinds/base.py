"""What the adapters of all kinds share: the estimator that `Model` sees, options, and columns as a model takes them."""

from __future__ import annotations

import difflib
import hashlib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpexplain.errors import ModelError

if TYPE_CHECKING:
    from dpexplain.models.kinds import Kind

Array = NDArray[Any]


class Adapter(ABC):
    """A model of a known kind as an estimator.

    feature_names_in_  the columns that it takes, in order; there where the model knows them
    classes_           the classes that it says a probability for each of; there for classifiers alone
    as_array           whether it takes a float array of the columns; else a DataFrame
    thread_safe        whether several threads may ask it at once
    defaults           the options of its kind, and what they are if nobody says otherwise

    What it raises about synthetic rows is shown to the caller, so its texts hold nothing that a server said; what it
    raises about private rows is swallowed (`models.predictor`).
    """

    as_array: bool = False
    thread_safe: bool = False
    defaults: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def of(cls, kind: Kind, source: Any, classes: Sequence[Any] | None, options: Mapping[str, Any]) -> Any:
        """The adapter of a file's bytes, an object or an address. A file that cannot be read is refused."""
        used = read_options(kind.name, cls.defaults, options)
        try:
            return cls.made(source, classes, used)
        except ModelError:
            raise
        except ImportError as error:
            package = error.name or "a package"
            extra = f"pip install dpexplain[{kind.extra}]" if kind.extra else "install it next to dpexplain"
            raise ModelError(f"a model of kind {kind.name} needs the package {package!r}.", hint=extra) from None
        except Exception as error:
            raise ModelError(
                f"this is no model of kind {kind.name} that can be loaded ({type(error).__name__}).",
                hint=f"save it again with the version of {kind.name} that is installed here",
            ) from None

    @classmethod
    @abstractmethod
    def made(cls, source: Any, classes: Sequence[Any] | None, options: Mapping[str, Any]) -> Self:
        """The adapter of a file's bytes, an object or an address."""

    @abstractmethod
    def ask(self, inputs: Any) -> Array:
        """One number for each row; or a line of numbers, one for each class."""

    def predict(self, inputs: Any) -> Array:
        return self.ask(inputs)

    def predict_proba(self, inputs: Any) -> Array:
        said, names = self.ask(inputs), self.classes_
        if said.ndim != 2 or said.shape[1] != len(names):
            raise ValueError(f"the model says {_width(said)} for each row, and {len(names)} classes are named")
        return said

    def named(self, classes: Sequence[Any] | None, known: Sequence[Any] | None = None) -> None:
        """Set the classes: as the model knows them, or as the caller names the columns of its output."""
        if known is not None and classes is not None and list(classes) != list(known):
            raise ModelError(f"the model knows its classes: {', '.join(map(repr, known))}.", hint="leave classes out")
        names = known if known is not None else classes
        if names is not None:
            self.classes_ = checked_classes(names)

    def __getstate__(self) -> dict[str, Any]:
        """Without what cannot leave the process, or is made again from the rest: names that begin with `_live`."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_live")}


class Lines(Adapter):
    """A function that returns a line of numbers for each row, one for each class."""

    def __init__(self, function: Callable[[Any], Any], classes: Sequence[Any]) -> None:
        self.function = function
        self.named(classes)

    @classmethod
    def made(cls, source: Any, classes: Sequence[Any] | None, _options: Mapping[str, Any]) -> Self:
        return cls(source, classes or ())

    def ask(self, inputs: Any) -> Array:
        return np.asarray(self.function(inputs))


def checked_classes(names: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) < 2 or len(set(names)) < len(names):
        raise ModelError("classes are at least two different names.", hint='classes=["no", "yes"]')
    return tuple(names)


def read_options(kind: str, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a kind. A number stands for a number and a text for a text; None may be anything."""
    for name, value in given.items():
        if name not in defaults:
            close = difflib.get_close_matches(str(name), list(defaults), 1)
            known = f"did you mean {close[0]}?" if close else "it has: " + (", ".join(defaults) or "none")
            raise ModelError(f"a model of kind {kind} has no option {name!r}.", hint=known)
        default = defaults[name]
        fits = isinstance(value, float | int) if isinstance(default, float) else isinstance(value, type(default))
        if default is not None and (not fits or isinstance(value, bool) is not isinstance(default, bool)):
            raise ModelError(f"the option {name} has a wrong value.", hint=f"its default is {default!r}")
    return {**defaults, **given}


def folder_digest(folder: Path) -> str:
    """The digest of all files of a folder, with their names."""
    known = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        known.update(
            f"{path.relative_to(folder).as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
        )
    return known.hexdigest()


def needed(package: str) -> Any:
    return importlib.import_module(package)


def matrix(rows: Any, kind: Any, codes: Mapping[str, Mapping[Any, float]] | None = None) -> Array:
    """The columns of a DataFrame (or a matrix) as one matrix of numbers, rows one after the other.

    codes   for columns that the model was trained on as categories: the number of each of them
    """
    if isinstance(rows, np.ndarray):
        return np.ascontiguousarray(rows, dtype=kind)
    made = np.empty(rows.shape, dtype=kind)
    for j, name in enumerate(rows.columns):
        made[:, j] = coded(rows[name], None if codes is None else codes.get(name))
    return made


def coded(column: Any, codes: Mapping[Any, float] | None) -> Any:
    """A column as numbers. A declared category that the model has no number for is refused, whatever the rows are."""
    declared = isinstance(column.dtype, pd.CategoricalDtype)
    no_date(column)
    if codes is None:
        if declared:
            raise ValueError(
                f"column {column.name!r} has text categories, and the model does not say which numbers they are: "
                "declare the numbers as categories, or use transform"
            )
        return column.to_numpy()
    if declared:
        table = np.array([codes_of(codes, category, column.name) for category in column.cat.categories])
        return table[column.cat.codes.to_numpy()]
    distinct, places = np.unique(column.to_numpy(), return_inverse=True)
    return np.array([codes.get(value, np.nan) for value in distinct.tolist()])[places]


def no_date(column: Any) -> None:
    """A model that was trained on numbers or words of dates has its own way to make them, which no file tells."""
    if column.dtype.kind == "M":
        raise ValueError(
            f"column {column.name!r} is a date, and the model takes numbers or texts: use transform to make of it what "
            "the model was trained on"
        )


def codes_of(codes: Mapping[Any, float], category: Any, column: Any) -> float:
    if category not in codes:
        raise ValueError(
            f"column {column!r} declares the category {category!r}, with which the model was not trained: use transform"
        )
    return codes[category]


def texts(column: Any) -> Array:
    """A column as Python texts; whole numbers are written as such."""
    no_date(column)
    if isinstance(column.dtype, pd.CategoricalDtype):
        names = np.array([str(category) for category in column.cat.categories], dtype=object)
        return np.asarray(names[column.cat.codes.to_numpy()])
    distinct, places = np.unique(column.to_numpy(), return_inverse=True)
    return np.asarray(np.array([str(value) for value in distinct.tolist()], dtype=object)[places])


def _width(said: Array) -> str:
    return (
        "one number" if said.ndim < 2 else f"{said.shape[1]} numbers" if said.ndim == 2 else f"{said.ndim} dimensions"
    )
