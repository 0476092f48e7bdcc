"""`Clustering`: a rule that says of any row, alone, to which cluster it belongs.

Labels that were computed from private rows are not public, and no noise added to histograms later makes them so. A rule
is: it can be public knowledge, or come from a release with a cost of its own. What may be said about a rule is found
out on synthetic rows, before anything is paid for, by the checks that models pass: it answers, one label for each row,
each row for itself. On private rows it can then only name a declared cluster; whatever else it does, failing included,
puts the row into "other" and is told to nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import Domain
from dpexplain.data.rows import Rows
from dpexplain.data.spelling import number_of
from dpexplain.errors import InputError, ModelError
from dpexplain.maths.lloyd import MOST_CLUSTERS, nearest, places_of
from dpexplain.maths.surrogate import Space
from dpexplain.maths.surrogate.sketch import GRID
from dpexplain.models import Model, safe_by_default
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    from dpexplain.methods.kmeans.result import ClusterCentres

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

OTHER = "other"  # the name of the code that follows those of the labels
USUAL_ROWS = 2**13  # a table that is guessed at: the rule is made before the table is known
A_RULE = "a clustering is a fitted predictor, a function of a DataFrame, or {name: predicate}."
NO_LABELS = (
    "labels of rows were given. They were computed from the rows, so they are private, and an explanation of them "
    "would not be protected."
)
FUNCTION_HINT = (
    "pass the rule itself: a fitted predictor such as KMeans, a function of a DataFrame, or what dpx.dp_kmeans returns"
)


@dataclass(frozen=True, eq=False)
class Clustering:
    """A labelled partition of the space of rows. Make one with `Clustering.of`, or with `dpx.dp_kmeans`.

    labels       the names of the clusters, public
    domain       of the columns it needs
    features     these columns
    result       the release that made it; None for public knowledge
    thread_safe  whether several threads may ask at once
    """

    labels: tuple[str, ...]
    domain: Domain
    features: tuple[str, ...]
    result: ClusterCentres | None
    thread_safe: bool
    _declared: JsonObject
    _codes: Callable[[Rows], Floats]
    _rule: _Rule | None = None  # None for centres, which cannot change

    @classmethod
    def of(
        cls,
        clustering: Any,
        *,
        domain: Domain,
        labels: Sequence[Any] | Mapping[Any, str] | None = None,
        features: Sequence[str] | None = None,
        name: str = "clustering",
        version: str | None = None,
        as_array: bool | None = None,
        thread_safe: bool | None = None,
        block: int | None = None,
    ) -> Clustering:
        """A clustering, after trying it on synthetic rows.

        clustering  a fitted predictor (KMeans, GaussianMixture, a pipeline, a classifier); a function of a DataFrame of
                    the declared columns; {name: predicate}, the first that is true counts; or released centres
        labels      what it answers, {answer: name}, or names in order for a predictor whose answers are known; answers
                    that are not declared count as "other". Default: all that a predictor can answer.
        features, name, version, as_array, thread_safe, block   as for `dpx.Model`
        """
        if hasattr(type(clustering), "as_clustering"):  # a clustering, or released centres
            ready: Clustering = clustering.as_clustering(labels)
            return ready.require(domain)
        rule, known = _rule(clustering)
        answers, names = declared(labels, known)
        numbers = numbered(answers)
        estimator = hasattr(clustering, "predict")
        fitted = getattr(clustering, "feature_names_in_", None) if estimator else None
        with _words_of_clusterings():
            model = Model(
                partial(_numbers_of, rule, numbers),
                output=(0.0, float(len(answers))),
                features=list(map(str, fitted)) if features is None and fitted is not None else features,
                name=name,
                version=version,
                as_array=(estimator and fitted is None) if as_array is None else as_array,
                thread_safe=(estimator and safe_by_default(clustering)) if thread_safe is None else thread_safe,
                block=block,
            )
        checked = _Rule(model, domain, names)
        uses = model.features(domain)
        known_as = {key: model.identity[key] for key in ("name", "version", "features", "as_array")}
        return cls(
            labels=names,
            domain=Domain({feature: domain[feature] for feature in uses}),
            features=tuple(uses),
            result=None,
            thread_safe=model.thread_safe,
            _declared={"kind": "function", **known_as, "answers": list(answers), "labels": list(names)},
            _codes=checked.codes,
            _rule=checked,
        )

    @classmethod
    def from_centres(
        cls, space: Space, centres: Any, labels: Sequence[Any], *, result: ClusterCentres | None = None
    ) -> Clustering:
        """Each row belongs to the nearest centre, the first of several. Centres are public or released: a line of
        whole numbers of 1 / GRID in the coordinates of `space` for each cluster.
        """
        _, names = declared(labels, None)
        places = np.asarray(centres)
        if places.shape != (len(names), space.size) or places.dtype.kind not in "iu":
            raise InputError(f"{len(names)} centres of {space.size} whole numbers each are needed.")
        if places.min() < 0 or places.max() > GRID:
            raise InputError("a centre lies outside the space.")
        exact = places.astype(np.int64)
        rule = {"kind": "centres", "space": space.to_json(), "centres": exact.tolist(), "labels": list(names)}
        paid = None if result is None else digest(result.receipt.to_json()["entry"])
        return cls(
            labels=names,
            domain=Domain({feature: space.domain[feature] for feature in space.features}),
            features=space.features,
            result=result,
            thread_safe=True,
            _declared={**rule, "release": paid},
            _codes=partial(_nearest, space, exact),
        )

    def as_clustering(self, labels: Sequence[Any] | None = None) -> Clustering:
        """Itself; its names cannot be changed."""
        if labels is not None and [str(label) for label in labels] != list(self.labels):
            raise InputError("the labels are not those of the clustering.", hint="leave them out")
        return self

    @property
    def identity(self) -> JsonObject:
        """What identifies it in the ledger."""
        return self._declared if self._rule is None else {**self._declared, "version": self._rule.model.version}

    @property
    def versioned(self) -> bool:
        """Whether a version stands for a rule that could be another one. Centres stand for themselves."""
        return self._rule is not None and self._rule.model.versioned

    def ask_again(self) -> None:
        """Ask the rule about the synthetic rows once more: it may have been fitted anew. It is another one then, and
        without a version of the caller's it gets a new random one.
        """
        if self._rule is not None:
            self._rule.check()

    @property
    def receipt(self) -> Receipt | None:
        """Of the release that made it; None for public knowledge."""
        return None if self.result is None else self.result.receipt

    @property
    def cost(self) -> Cost | None:
        """What that release cost; None for public knowledge."""
        return None if self.receipt is None else self.receipt.cost

    def assign(self, rows: Rows) -> Integers:
        """The number of each row's label; one more than the last for "other". Never raises because of a row."""
        other = len(self.labels)
        codes = np.nan_to_num(self._codes(rows), nan=other)
        return np.where((codes >= 0) & (codes < other), codes, other).astype(np.int64)

    def require(self, domain: Domain) -> Clustering:
        """Itself, if the columns that it needs are declared there in the same way; an InputError otherwise."""
        for feature in self.features:
            if domain.column(feature) != self.domain[feature]:
                raise InputError(
                    f"the clustering was made for another declaration of {feature!r}.",
                    hint="make it again for the domain of this table",
                )
        return self

    def describe(self) -> str:
        """In words: how many clusters, of what, by which rule, and what it cost."""
        columns = ", ".join(self.features[:8]) + (", ..." if len(self.features) > 8 else "")
        names = ", ".join(self.labels[:8]) + (", ..." if len(self.labels) > 8 else "")
        start = f"{len(self.labels)} cluster{'s' if len(self.labels) > 1 else ''} ({names})"
        if self.identity["kind"] == "centres":
            rule = f"a row belongs to the nearest of {len(self.labels)} centres"
        else:
            version = f" {self.identity['version']}" if self.versioned else ""
            rule = f"by the rule {self.identity['name']!r}{version}"
        paid = "Taken as public: what the rule reveals about the data it was fitted on is outside any guarantee."
        if (receipt := self.receipt) is not None:
            paid = f"Released with {receipt.budget.describe(receipt.cost)}, for {receipt.neighbours.describe()}."
        return f"{start} of {columns}: {rule}. {paid}"

    def __repr__(self) -> str:
        return f"Clustering({', '.join(self.labels)})"


def _numbers_of(rule: Callable[[Any], Any], numbers: Mapping[str | float | None, int], inputs: Any) -> Floats:
    return codes_of(rule(inputs), numbers)


def _nearest(space: Space, centres: Integers, rows: Rows) -> Floats:
    return nearest(centres, places_of(space, rows.columns, rows.size)).astype(np.float64)


class _Rule:
    """A rule as a model that answers with the numbers of labels, after the checks that models pass."""

    def __init__(self, model: Model, domain: Domain, names: Sequence[str]) -> None:
        self.model, self._domain, self._names = model, domain, names
        self.check()

    def check(self) -> None:
        with _words_of_clusterings():
            predictor = self.model.checked(self._domain, rows=USUAL_ROWS)
        if (predictor.answers == len(self._names)).all():
            shown = ", ".join(map(repr, self._names[:8])) + (", ..." if len(self._names) > 8 else "")
            raise ModelError("the clustering puts no synthetic row into a declared cluster.", hint=f"declared: {shown}")
        self._predictor = predictor

    def codes(self, rows: Rows) -> Floats:
        return self._predictor.predict_at(self._predictor.inputs(rows), {})


@contextmanager
def _words_of_clusterings() -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        said = error.message.replace("the model", "the clustering").replace("one number", "one label")
        raise ModelError(said, hint=error.hint) from None


def stands_for(answer: Any) -> str | float | None:
    """What an answer says, whatever the answers beside it have made of it; None for what can be no label.

    An array has one type. Beside a text, numpy turns 1 into "1"; beside a fraction into 1.0; beside a complex number
    into 1+0j. A number of single precision becomes another one in double precision, and NaN the text "nan". Each row's
    label must come from its own answer, so all of these are one (as in `data.encode`).
    """
    if isinstance(answer, complex | np.complexfloating) and not answer.imag:
        answer = answer.real
    if isinstance(answer, bytes):
        answer = answer.decode("utf-8", "replace")
    if isinstance(answer, str):
        answer = answer.rstrip("\0")  # as numpy does
    number = number_of(answer)
    if number is not None:
        return number if math.isinf(number) or number.is_integer() else float(np.float32(number))
    return answer if isinstance(answer, str) and answer.strip().lower() != "nan" else None


def numbered(answers: Sequence[Any]) -> dict[str | float | None, int]:
    """The number of each declared answer, by what it stands for."""
    numbers = {stands_for(answer): code for code, answer in enumerate(answers)}
    if None in numbers:
        raise InputError('"nan" cannot be a label: it is what a missing answer becomes.', hint="use another name")
    if len(numbers) < len(answers):
        raise InputError(
            "two labels stand for the same answer.",
            hint='note that 1, 1.0, True, "1" and "01" are equal here; let the clustering answer with other names',
        )
    return numbers


def codes_of(answer: Any, numbers: Mapping[str | float | None, int]) -> Floats:
    """The number of each declared answer, and the number after the last for any other. Value by value."""
    told = answer.to_numpy() if hasattr(answer, "to_numpy") else answer
    values = told if isinstance(told, np.ndarray) else np.asarray(told, dtype=object)
    if values.dtype.kind == "O":
        few = {text: numbers.get(stands_for(text), len(numbers)) for text in set(filter(_is_text, values.flat))}
        codes = [few[v] if _is_text(v) else numbers.get(stands_for(v), len(numbers)) for v in values.flat]
        return np.array(codes, dtype=np.float64).reshape(values.shape)
    distinct, index = np.unique(values, return_inverse=True)
    each = np.array([numbers.get(stands_for(value), len(numbers)) for value in distinct], dtype=np.float64)
    return each[index].reshape(values.shape)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _rule(clustering: Any) -> tuple[Callable[[Any], Any], tuple[Any, ...] | None]:
    """A function from rows to answers, and all its possible answers where they are known."""
    if isinstance(clustering, type):
        raise ModelError(f"{clustering.__name__} is a class.", hint="give a fitted object of it")
    if isinstance(clustering, Mapping):
        return _first_true(clustering), tuple(clustering)
    if hasattr(clustering, "predict"):
        return clustering.predict, _known_answers(clustering)
    if callable(clustering):
        return clustering, None
    if hasattr(clustering, "fit_predict"):
        raise ModelError(
            f"{type(clustering).__name__} labels the rows it was fitted on, and cannot say where another row belongs.",
            hint="fit a classifier or nearest centres to its clusters of a public sample, and pass that",
        )
    if hasattr(clustering, "__len__") or hasattr(clustering, "__array__") or hasattr(clustering, "__iter__"):
        raise InputError(NO_LABELS, hint=FUNCTION_HINT)
    raise ModelError(A_RULE, hint=FUNCTION_HINT)


def _known_answers(estimator: Any) -> tuple[Any, ...] | None:
    """What a fitted predictor can answer: its classes, or the numbers of its clusters."""
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    classes = getattr(last, "classes_", None)
    if classes is not None:
        return tuple(np.asarray(classes).tolist())
    for name in ("cluster_centers_", "means_"):
        found = getattr(last, name, None)
        if found is not None:
            return tuple(range(len(found)))
    for name in ("n_clusters", "n_components"):
        number = getattr(last, name, None)
        if isinstance(number, int | np.integer):
            return tuple(range(int(number)))
    return None


def _first_true(predicates: Mapping[Any, Any]) -> Callable[[Any], Any]:
    """The name of the first predicate that holds for a row; None where none does."""
    if not predicates or not all(callable(predicate) for predicate in predicates.values()):
        raise ModelError("predicates are functions of a DataFrame.", hint='{"young": lambda rows: rows["age"] < 30}')
    return partial(_first_name, dict(predicates))


def _first_name(predicates: Mapping[Any, Any], inputs: Any) -> NDArray[Any]:
    answer = np.full(len(inputs), None, dtype=object)
    for name, predicate in reversed(list(predicates.items())):
        held = np.asarray(predicate(inputs))
        if held.shape != answer.shape or held.dtype != np.bool_:
            raise TypeError("a predicate gives true or false for each row")
        answer[held] = name
    return answer


def declared(labels: Any, known: tuple[Any, ...] | None) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """The answers that are declared, and their names."""
    if labels is None and known is None:
        raise InputError("say which clusters there are.", hint='labels=["young", "old"]: what the function answers')
    listed = isinstance(labels, Sequence | Mapping | np.ndarray | pd.Index) and not isinstance(labels, str | bytes)
    if labels is not None and not listed:
        raise InputError(f"labels must be a list of names; got an object of type {type(labels).__name__}.")
    answers = known if labels is None else tuple(labels)
    assert answers is not None
    answers = tuple(a.item() if isinstance(a, np.generic) else a for a in answers)
    for answer in answers:
        if not isinstance(answer, str | int | float) or (isinstance(answer, float) and not math.isfinite(answer)):
            raise InputError(f"a label is a text or a finite number; got {repr(answer)[:60]}.")
    names = tuple(str(name) for name in (labels.values() if isinstance(labels, Mapping) else answers))
    if labels is not None and known is not None and not isinstance(labels, Mapping) and not set(answers) & set(known):
        if len(answers) != len(known):
            raise InputError(
                f"{len(answers)} labels were given for {len(known)} clusters.",
                hint="one name for each cluster in order, or {answer: name}",
            )
        answers = known
    if not 1 <= len(names) <= MOST_CLUSTERS:
        raise InputError(f"there can be 1 to {MOST_CLUSTERS} clusters; got {len(names)}.")
    if len(set(names)) < len(names) or not all(name.strip() for name in names):
        raise InputError("every cluster needs a name of its own.")
    if OTHER in names:
        raise InputError(
            f'"{OTHER}" is the name for rows that are in none of the clusters.',
            hint="leave it out: answers that are not declared count as other",
        )
    return answers, names
