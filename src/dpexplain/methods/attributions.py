"""Attributions: what moved the model's prediction for one record, from a released local linear model.

    contribution of a feature = coefficients . (record - average person), summed over the feature's coordinates
    base                      = the mean prediction of the table
    prediction                = the model's own for the record
    remainder                 = prediction - base - all contributions: what no line explains

The average person and the mean prediction are released with the local model. The record is the caller's: an attribution
protects the rows of the table it was computed from, not the record that it explains.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import shown_date
from dpexplain.core.canonical import JsonObject
from dpexplain.core.domain import Categorical, Numeric, PublicRange
from dpexplain.errors import InputError
from dpexplain.maths.surrogate import Fit, Space
from dpexplain.maths.surrogate.fit import Asked, Released, average_of, contributions, counted_from, halfwidths
from dpexplain.maths.surrogate.space import ONE
from dpexplain.methods.result import Floats, Result
from dpexplain.receipts import Receipt

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from dpexplain.render.attributions import Highlight


class LocalModelSpec(Protocol):
    """A spec whose release holds a local model."""

    @property
    def space(self) -> Space:
        """The coordinates of records, and with them the features and their declared columns."""

    @property
    def output(self) -> PublicRange:
        """The range of the model's predictions."""

    def read(self, released: Released, asked: Asked) -> Fit:
        """The local model at `asked.record`."""


# explainer -> the function, or its "module:name", that reads its spec from JSON
SPECS: dict[str, str | Callable[[JsonObject], LocalModelSpec]] = {
    "local-explanation": "dpexplain.methods.local_explanation.spec:from_json",
    "adaptive-explanation": "dpexplain.methods.adaptive.spec:Adaptive.from_json",
    "adaptive-history": "dpexplain.methods.adaptive.spec:History.from_json",
    "local-sketch": "dpexplain.methods.local_sketch.spec:Spec.from_json",
}

ABOUT = "Explains one record; the record itself is not protected by the guarantee."
NEAR = 0.01  # of the output range: a line that ends so near the model's own answer leads to it
WIDE = 0.05  # of the output range: half of an interval that says little
REMAINDER = "what a line leaves out"
MAX_BARS = 12  # of a picture; what is smaller stands together as one
LARGEST = 1e150  # of what is read from a file
WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class Push:
    """How far one feature, or several together, moved the prediction."""

    name: str  # with the record's value: `age = 39`
    value: float
    low: float
    high: float
    settled: bool = True  # see `Fit`

    @property
    def sure(self) -> bool:
        """False if noise alone could explain it (the interval contains zero), or if nobody knows how far it is off."""
        return self.settled and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Attribution(Result):
    """The contributions of features to the prediction for one record, in units of the model's output.

    Intervals cover what the same local model says without noise, for the (cleaned) table and its exact average person.
    They do not say how well a linear model describes the model nearby: the remainder does.
    """

    settings: Asked
    ready: Fit | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str] = "attribution"
    quantity: ClassVar[str] = "contribution"
    interval_name: ClassVar[str] = "noise interval"
    picture: ClassVar[str] = "dpexplain.render.attributions:plot_waterfall"
    text_view: ClassVar[str] = "dpexplain.render.text:attribution_view"

    @cached_property
    def spec(self) -> LocalModelSpec:
        read = SPECS[self.receipt.request["explainer"]]
        spec: LocalModelSpec = (resolve_name(read) if isinstance(read, str) else read)(self.receipt.request["spec"])
        return spec

    def more_facts(self) -> JsonObject:
        return {"base": self.base, "prediction": self.prediction}

    @property
    def space(self) -> Space:
        return self.spec.space

    @cached_property
    def fit(self) -> Fit:
        """The local linear model in coordinates."""
        if self.ready is not None:
            return self.ready
        released = released_parts(self)
        average = average_of(released, self.space, self.output)
        return counted_from(self.spec.read(released, self.settings), average)

    @cached_property
    def record(self) -> dict[str, object]:
        """The record that is explained, in the units of the table."""
        return self.space.read(self.settings.record)

    @property
    def title(self) -> str:
        model = self.receipt.request.get("model")
        return "Local explanation of one record" + (f", model {model['name']}" if model else "")

    @property
    def compared(self) -> str:
        """What contributions are counted from, and where they lead, in words."""
        end = f"{self.end_name}: {self.prediction:.3g}."
        if self.fit.average is None:
            return f"Compared with {self.base_name} ({self.base:.3g}); {end}"
        return f"Compared with an average person of the table (mean prediction {self.base:.3g}); {end}"

    @property
    def missed(self) -> str:
        """Words for a local model that does not lead to the model's own answer, by more than its interval; or none."""
        rest = self.remainder
        if self.own is None or self.left_out is None or not rest.sure:
            return ""
        line, low, high = (self.own - number for number in (rest.value, rest.high, rest.low))
        return (
            f"A straight line does not explain this prediction: it leads to {line:.3g} ({low:.3g} to {high:.3g}), "
            f"and the model says {self.own:.3g}."
        )

    @property
    def caveat(self) -> str:
        return " ".join(text for text in (self.missed, self.compared, self.notes) if text)

    @property
    def footnote(self) -> str:
        return self.notes  # what else the caveat says stands above the picture

    @property
    def notes(self) -> str:
        """What was not determined, what is special about this fit, and what holds for every attribution."""
        sentences = [f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in self.fit.notes]
        if names := self.undetermined:
            listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            sentences = [
                f"Not determined with this epsilon (few such rows, or columns that move together): {listed}.",
                "Intervals of these assume that the model is nowhere steeper than twice its output range over the "
                "range of a column.",
                *sentences,
            ]
        return " ".join([*sentences, ABOUT])

    @property
    def unsure_words(self) -> str:
        """Why a contribution is not sure."""
        return "the noise could explain it" if self.fit.settled else "the steps may not have reached the best line"

    @property
    def base_name(self) -> str:
        """What stands at the beginning of a picture."""
        if self.fit.average is not None:
            return "an average person"
        middle = np.array_equal(self.fit.reference, self.space.middle)
        return "the middle of the domain" if middle else "the mean of the cells"

    @property
    def end_name(self) -> str:
        """What stands at its end."""
        return "this record" if self.own is not None else "this record, by the local model"

    # Contributions --------------------------------------------------------------------------------------------------

    @cached_property
    def _way(self) -> Floats:
        """From the reference to the record, in coordinates."""
        return self.space.locate(self.record) - self.fit.reference

    @cached_property
    def _steps(self) -> Floats:
        """Each feature's way from the reference to the record, one line for each."""
        return self.space.lines(self._way)

    @cached_property
    def values(self) -> Floats:
        """The contribution of each feature, in units of the model's output."""
        return contributions(self.fit, self.space, self.space.locate(self.record))

    @property
    def base(self) -> float:
        """The mean prediction of the table; in files of before it was released, the local model's at the reference."""
        average = self.fit.average
        return self.fit.value - float(self.values.sum()) if average is None else average.prediction

    @property
    def own(self) -> float | None:
        """The model's own prediction for the record, where it is known."""
        return self.settings.prediction

    @property
    def prediction(self) -> float:
        """The model's own prediction for the record; where it is not known, the local model's value there."""
        return self.fit.value if self.own is None else self.own

    @property
    def output(self) -> PublicRange:
        return self.spec.output

    @cached_property
    def remainder(self) -> Push:
        """What is left between the base with all contributions and the prediction."""
        value = self.prediction - self.base - float(self.values.sum())
        low, high = self._around(self._way[None], np.ones((1, len(self.space.features)), dtype=bool))
        average = self.fit.average
        half = float(high[0] - low[0]) / 2 + (0.0 if average is None else 1.96 * average.prediction_spread)
        return Push(REMAINDER, value, value - half, value + half, self.fit.settled)

    @property
    def left_out(self) -> Push | None:
        """The remainder, where it is worth speaking of."""
        return self.remainder if abs(self.remainder.value) >= NEAR * self.output.width else None

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        low, high = self._usual if isinstance(level, float) and level == 0.95 else self._interval(level)
        return low.copy(), high.copy()

    @cached_property
    def _usual(self) -> tuple[Floats, Floats]:
        """The interval that is asked for again and again: for numbers, words and pictures of one explanation."""
        return self._interval(0.95)

    def _interval(self, level: float) -> tuple[Floats, Floats]:
        return self._around(self._steps, np.eye(len(self.space.features), dtype=bool), level)

    def _around(self, lines: Floats, moves: NDArray[np.bool_], level: float = 0.95) -> tuple[Floats, Floats]:
        """(low, high) around coefficients . line for each line; `moves`: where it begins at the reference."""
        middle, half = lines @ self.fit.coefficients, halfwidths(self.fit, self.space, lines, moves, level)
        return middle - half, middle + half

    @cached_property
    def undetermined(self) -> list[str]:
        """Features whose interval is wide mostly because the rows do not determine their effect at this cost."""
        if self.fit.unknown is None:
            return []
        low, high = self.interval()
        wide, unknown = (high - low) / 2, self.fit.unknown(self._steps)
        unclear = (unknown > wide / 2) & (wide > WIDE * self.output.width)
        return [name for name, open_ in zip(self.space.features, unclear, strict=True) if open_]

    @cached_property
    def sure(self) -> NDArray[np.bool_]:
        """For each feature, whether its interval excludes zero; otherwise the noise could explain its contribution."""
        low, high = self.interval()
        return ((low > 0) | (high < 0)) & self.fit.settled

    # Tables ---------------------------------------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """One line for each feature; `slope` is the change of the prediction for one more unit of a numeric one."""
        import pandas as pd

        low, high = self.interval()
        each = self._unit_lines @ self.fit.coefficients
        slopes = [each[at.start] if self._numeric(name) else None for name, at in self.space.slices.items()]
        columns = {"feature": list(self.space.features), "value": pd.array(self._shown, dtype=object)}
        estimates = {self.quantity: self.values, "low": low, "high": high, "slope": pd.array(slopes, dtype="Float64")}
        return pd.DataFrame({**columns, **estimates})

    def top(self, k: int = 10) -> pd.DataFrame:
        """The `k` lines of `to_frame()` with the largest contributions, up or down, the largest first."""
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InputError(f"k is a whole number of at least 1; got {k!r}.", spent="")
        return self.to_frame().iloc[self._order[:k]].reset_index(drop=True)

    @cached_property
    def coefficients(self) -> dict[str, float]:
        """The local model in original units: `age` is the change of the prediction for one more year, `sex=female` the
        change from the reference to that category.
        """
        numbers = self._unit_lines @ self.fit.coefficients
        return dict(zip(self.space.names, numbers.tolist(), strict=True))

    def effects(self) -> pd.DataFrame:
        """What each category of a categorical feature would contribute; `own` marks the record's."""
        import pandas as pd

        categories = [
            (name, category, self.record[name] == category, where.start + i)
            for name, where in self.space.slices.items()
            if isinstance(column := self.space.domain[name], Categorical)
            for i, category in enumerate(column.categories)
        ]
        lines = self._unit_lines[[place for *_, place in categories]]
        features = list(self.space.features)
        numbers = [features.index(name) for name, *_ in categories]
        low, high = self._around(lines, np.eye(len(features), dtype=bool)[numbers])
        return pd.DataFrame(
            {
                "feature": [name for name, *_ in categories],
                "category": pd.array([category for _, category, *_ in categories], dtype=object),
                "own": np.array([own for _, _, own, _ in categories], dtype=bool),
                self.quantity: lines @ self.fit.coefficients,
                "low": low,
                "high": high,
            }
        )

    @cached_property
    def _unit_lines(self) -> Floats:
        """A line for each coordinate: one more unit of a number, or the way from the reference to a category."""
        lines = np.zeros((self.space.size, self.space.size))
        for name, where in self.space.slices.items():
            column = self.space.domain[name]
            if isinstance(column, Numeric):
                lines[where, where] = 1 / (column.high - column.low)
            else:
                lines[where, where] = ONE * np.eye(len(column.categories)) - self.fit.reference[where]
        return lines

    @cached_property
    def _order(self) -> list[int]:
        """The features by the size of their contributions, the largest first; of equal ones, the earlier one."""
        return [int(i) for i in np.argsort(-np.abs(self.values), kind="stable")]

    @property
    def _shown(self) -> list[Any]:
        """The record's values as people write them: whole numbers for whole-number columns."""
        whole = [self._numeric(name) and getattr(self.space.domain[name], "integer", False) for name in self.record]
        values = [int(v) if w and v is not None else v for v, w in zip(self.record.values(), whole, strict=True)]  # type: ignore[call-overload]
        return [shown_date(self.space.domain[name], value) for name, value in zip(self.record, values, strict=True)]

    def _numeric(self, name: str) -> bool:
        return isinstance(self.space.domain[name], Numeric)

    # Pictures -------------------------------------------------------------------------------------------------------

    def pushes(self, most: int = MAX_BARS) -> list[Push]:
        """The largest contributions, the largest first, and the rest of them together, with their 95 % intervals."""
        chosen = self._order if len(self._order) <= most + 1 else self._order[:most]
        rest, shown, moves = self._order[len(chosen) :], self._shown, np.eye(len(self._order), dtype=bool)[chosen]
        names = [self._named(self.space.features[i], shown[i]) for i in chosen]
        if rest:
            names, moves = [*names, f"other {len(rest)} features"], np.vstack([moves, ~moves.any(axis=0)])
        lines = moves @ self._steps
        low, high = self._around(lines, moves)
        numbers = zip((lines @ self.fit.coefficients).tolist(), low.tolist(), high.tolist(), strict=True)
        return [Push(name, *three, self.fit.settled) for name, three in zip(names, numbers, strict=True)]

    def _named(self, feature: str, value: Any) -> str:
        """A feature and its value, as people call them."""
        return f"{self.receipt.called(feature)} = {_text(self.receipt.called_value(feature, value))}"

    @property
    def picture_size(self) -> tuple[float, float]:
        return 7.36, 2.6 + 0.24 * (len(self.pushes()) + (self.left_out is not None))

    def plot_force(self, ax: Axes | None = None) -> Axes:
        """All on one line: what pushes up from the left, what pushes down from the right."""
        from dpexplain.render.attributions import plot_force

        return plot_force(self, ax)

    def heatmap(
        self,
        shape: tuple[int, int],
        order: Sequence[str] | None = None,
        image: Any = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Features that are pixels as a picture of `shape` (lines, columns).

        order  the names of the pixels, line by line; all features in their order if not given
        image  grey values to draw underneath, of any size
        """
        from dpexplain.render.attributions import plot_heatmap

        places = self._pixels(shape, order)
        return plot_heatmap(self, self.values[places], self.sure[places], None if image is None else _grey(image), ax)

    def _pixels(self, shape: Any, order: Sequence[str] | None) -> NDArray[np.int64]:
        """Where the pixels stand among the features."""
        whole = isinstance(shape, Sequence) and len(shape) == 2
        if not whole or any(isinstance(s, bool) or not isinstance(s, int | np.integer) or s < 1 for s in shape):
            raise InputError(f"the shape of a picture is (lines, columns); got {shape!r}.", spent="")
        names = list(self.space.features if order is None else order)
        position = {name: i for i, name in enumerate(self.space.features)}
        if unknown := [name for name in names if name not in position]:
            raise InputError(f"unknown feature {unknown[0]!r} in the order of pixels.", spent="")
        if len(names) != math.prod(shape):
            raise InputError(
                f"{len(names)} features do not fill a picture of {shape[0]} x {shape[1]}.",
                hint="order=[...] names the features that are pixels, line by line",
                spent="",
            )
        return np.array([position[name] for name in names], dtype=np.int64).reshape(tuple(shape))

    def highlight(
        self, text: str | None = None, prefix: str = "", features: Mapping[str, str] | None = None
    ) -> Highlight:
        """The words of a text, coloured by the contributions of their features.

        A word belongs to the feature `prefix` + word in small letters, or to the one that `features` names for it.
        Words that the features do not know, or that the record does not have, stay plain. Without a `text`: the words
        that the record has, the largest contribution first. A record has a word if its feature is above its lowest
        value (a number) or not in its first category.
        """
        from dpexplain.render.attributions import Highlight

        known = self._words(prefix, features)
        if text is None:
            words = sorted(known, key=lambda word: (-abs(known[word].value), word))
            return Highlight(self, tuple((word, known[word]) for word in words), " ")
        if not isinstance(text, str):
            raise InputError("a text is needed, or none at all.", spent="")
        pieces: list[tuple[str, Push | None]] = []
        end = 0
        for word in WORD.finditer(text):
            pieces += [(text[end : word.start()], None), (word[0], known.get(word[0].lower()))]
            end = word.end()
        return Highlight(self, (*pieces, (text[end:], None)))

    def _words(self, prefix: str, features: Mapping[str, str] | None) -> dict[str, Push]:
        """The words that the record has, and the contribution of each."""
        if features is None:
            features = {name[len(prefix) :]: name for name in self.space.features if name.startswith(prefix)}
        unknown = [name for name in features.values() if name not in self.record]
        if not features or unknown:
            wrong = f"unknown feature {unknown[0]!r}." if unknown else f"no feature begins with {prefix!r}."
            raise InputError(wrong, hint="prefix='w_' for a feature 'w_bad', or features={'bad': 'w_bad'}", spent="")
        position = {name: i for i, name in enumerate(self.space.features)}
        low, high = self.interval()
        return {
            word.lower(): Push(word, float(self.values[i]), float(low[i]), float(high[i]), self.fit.settled)
            for word, i in ((word, position[name]) for word, name in features.items())
            if word and self._has(self.space.features[i])
        }

    def _has(self, name: str) -> bool:
        column, value = self.space.domain[name], self.record[name]
        return bool(value != (column.low if isinstance(column, Numeric) else column.categories[0]))

    def to_shap(self) -> Any:
        """This attribution as a `shap.Explanation`, for SHAP's own plots. These show no noise, no guarantee, and no
        remainder: they end where the line leads.
        """
        try:
            with warnings.catch_warnings():  # shap warns about its own dependencies while it is imported
                warnings.simplefilter("ignore")
                shap = import_module("shap")
        except ImportError:
            raise InputError(
                "the package shap is not installed.", hint="pip install dpexplain[shap]", spent=""
            ) from None
        mixed = not all(self._numeric(name) for name in self.space.features)
        data = np.array(self._shown, dtype=object if mixed else np.float64)
        return shap.Explanation(
            values=self.values.copy(), base_values=self.base, data=data, feature_names=list(self.space.features)
        )

    # Files ----------------------------------------------------------------------------------------------------------

    def view(self) -> JsonObject:
        return self.settings.to_json()

    @classmethod
    def rebuild(cls, receipt: Receipt, released: JsonObject, view: JsonObject) -> Attribution:
        result = cls(receipt, released, Asked.from_json(view))
        fit, size = result.fit, result.space.size  # the reader refuses what does not fit together
        model = np.concatenate([fit.coefficients, fit.reference, [fit.value]])
        if model.shape != (2 * size + 1,) or fit.coefficients.shape != (size,) or not _sane(model):
            raise ValueError("no local model of these features")
        ends = np.concatenate([*result.interval(), [result.base, result.prediction]])  # what can be read can be shown
        if not _sane(ends) or not result.title or not result.caveat:
            raise ValueError("no attribution of ours")
        if result.own is not None and not result.output.low <= result.own <= result.output.high:
            raise ValueError("this value is no prediction of the model")
        return result


def released_parts(result: Result) -> Released:
    """What a local model is read from."""
    return Released(result.released["parts"], result.receipt.request["table"].get("rows"))


def _sane(numbers: Floats) -> bool:
    """Whether they can be computed with and drawn."""
    return bool((np.abs(numbers) <= LARGEST).all())


def _text(value: Any) -> str:
    large = isinstance(value, float) and 1e4 <= abs(value) < 1e12
    return f"{value:,.0f}" if large else f"{value:.4g}" if isinstance(value, float) else str(value)


def _grey(image: Any) -> Floats:
    try:
        grey = np.array(image, dtype=np.float64)
    except (TypeError, ValueError):
        grey = np.empty(0)
    if grey.ndim != 2 or not grey.size or not np.isfinite(grey).all():
        raise InputError("an image underneath is a table of grey values: lines of finite numbers.", spent="")
    return grey
