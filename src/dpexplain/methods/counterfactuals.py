"""What would have to be different about a record for the model to say something else. Free.

The model is public, so whatever it says about made-up records is free. Candidates are synthetic rows of which the model
says what is wanted once kept columns are the record's. Each is brought back to the record column by column, as long as
the model still says so; what remains changed is the answer. How plausible the changed record is follows from the
stand-in: whether synthetic rows lie as near to it as they do to each other. It does not say what a person can do, nor
what causes what in the world.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import Names, shown_date
from dpexplain.core.domain import Categorical
from dpexplain.data.rows import STEP, Rows
from dpexplain.errors import InputError
from dpexplain.maths.surrogate import Space
from dpexplain.methods.local_readings import columns_of
from dpexplain.methods.shapley_rows import evenly
from dpexplain.models import Predictor

if TYPE_CHECKING:
    import pandas as pd

    from dpexplain.methods.posterior import Posterior

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]

CANDIDATES = 60  # synthetic rows that are brought back to the record
NEAREST, REFERENCE = 5, 400  # rows near a record, and rows that it is compared with
HALVINGS = 6  # of a number between the record's and the candidate's
RARE = 0.05  # of synthetic rows that are as far from others: a record that is further off is not plausible


@dataclass(frozen=True)
class Counterfactual:
    """One way to another prediction.

    changes       {column: (value now, value then)}
    prediction    of the changed record
    plausibility  the share of synthetic rows that lie at least as far from their neighbours as the changed record
    """

    changes: Mapping[str, tuple[Any, Any]]
    prediction: float
    plausibility: float

    @property
    def plausible(self) -> bool:
        return self.plausibility >= RARE


@dataclass(frozen=True)
class Counterfactuals(Sequence[Counterfactual]):
    """Several ways, those with the fewest changes first and of equal ones the more plausible."""

    record: Mapping[str, Any]
    prediction: float
    wanted: tuple[float, float]
    found: tuple[Counterfactual, ...]
    names: Names
    basis: str

    def __getitem__(self, key: Any) -> Any:
        return self.found[key]

    def __len__(self) -> int:
        return len(self.found)

    @property
    def sentences(self) -> list[str]:
        """Each way in words."""
        if not self.found:
            low, high = self.wanted
            return [f"No synthetic row was found by which the prediction would lie between {low:.3g} and {high:.3g}."]
        return [self._sentence(one) for one in self.found]

    def _sentence(self, one: Counterfactual) -> str:
        changes = " and ".join(
            f"{self.names.title(name)} were {_text(after)} instead of {_text(before)}"
            for name, (before, after) in one.changes.items()
        )
        rare = "" if one.plausible else "; hardly any synthetic row is like that"
        return f"If {changes}, the model would say {one.prediction:.3g} instead of {self.prediction:.3g}{rare}."

    def to_frame(self) -> pd.DataFrame:
        """A line for each change."""
        import pandas as pd

        lines = [
            (number, name, before, after, one.prediction, one.plausibility)
            for number, one in enumerate(self.found, 1)
            for name, (before, after) in one.changes.items()
        ]
        frame = pd.DataFrame(lines, columns=["way", "column", "now", "then", "prediction", "plausibility"])
        frame.attrs["basis"] = self.basis
        return frame

    def __str__(self) -> str:
        return "\n".join([*self.sentences, self.basis])


def counterfactuals(
    posterior: Posterior,
    record: Any,
    wanted: tuple[float | None, float | None],
    *,
    keep: Sequence[str],
    most_changes: int,
    most: int,
) -> Counterfactuals:
    """The ways that were found."""
    search = _Search.of(posterior, record, keep)
    low, high = _range(wanted, posterior)
    ways: dict[tuple[str, ...], dict[str, Any]] = {}
    if not low <= search.now <= high:
        for changed in search.brought_back(search.candidates(low, high), low, high):
            moved = tuple(name for name in search.names if changed[name] != search.point[name])
            if 0 < len(moved) <= most_changes:
                ways.setdefault(moved, changed)
    last = search.nearer(list(ways.values()), low, high)
    said = search.said(last) if last else np.zeros(0)
    found = [search.way(moved, one, float(answer)) for moved, one, answer in zip(ways, last, said, strict=True)]
    ordered = sorted(found, key=lambda way: (not way.plausible, len(way.changes), -way.plausibility))
    basis = f"{posterior.basis} The model is public: what it says about made-up records costs nothing."
    names = posterior.stand_in.receipt.names
    return Counterfactuals(search.shown(search.point), search.now, (low, high), tuple(ordered[:most]), names, basis)


def _range(wanted: Any, posterior: Posterior) -> tuple[float, float]:
    output = posterior.model.output
    pair = isinstance(wanted, tuple | list) and len(wanted) == 2
    if not pair or any(
        end is not None and (isinstance(end, bool) or not isinstance(end, int | float)) for end in wanted
    ):
        raise InputError("wanted is a range of predictions.", hint="wanted=(0.5, None): at least one half", spent="")
    low = output.low if wanted[0] is None else float(wanted[0])
    high = output.high if wanted[1] is None else float(wanted[1])
    if not low <= high or high < output.low or low > output.high:
        raise InputError(
            f"wanted is a range within {output.low:g} to {output.high:g}; got {wanted!r}."[:200],
            hint="wanted=(0.5, None): at least one half",
            spent="",
        )
    return low, high


@dataclass(eq=False)
class _Search:
    """A record among synthetic rows, as the model sees them."""

    posterior: Posterior
    space: Space
    predictor: Predictor
    point: dict[str, Any]
    names: list[str]
    kept: set[str]
    now: float

    @classmethod
    def of(cls, posterior: Posterior, record: Any, keep: Sequence[str]) -> _Search:
        space = Space(posterior.stand_in.domain, tuple(posterior.model.features(posterior.stand_in.domain)))
        unknown = [name for name in keep if name not in space.features]
        if unknown:
            raise InputError(f"keep names {unknown[0]!r}, which the model does not use."[:200], spent="")
        point = space.read(record)
        if any(value is None for value in point.values()):
            raise InputError("a record with missing values has no distance to others.", hint="fill them in", spent="")
        search = cls(posterior, space, posterior.predictor.resized(STEP), point, list(space.features), set(keep), 0.0)
        search.now = float(search.said([point])[0])
        return search

    def said(self, points: Sequence[dict[str, Any]]) -> Floats:
        """The model's predictions, within its range."""
        rows = Rows(self.space.domain, columns_of(self.space, points), len(points))
        output = self.posterior.model.output
        answers = np.clip(self.predictor.predict_at(self.predictor.inputs(rows), {}), output.low, output.high)
        return np.nan_to_num(answers, nan=output.middle)

    def candidates(self, low: float, high: float) -> list[dict[str, Any]]:
        """Synthetic rows with the kept columns as the record's, of which the model then says what is wanted, the
        nearest first.
        """
        kept = {name: float(codes[0]) for name, codes in self.space.columns(self.point).items() if name in self.kept}
        answers = self.posterior.predictions_at(kept)
        place = self.space.locate(self.point)
        own = self._coordinates
        free = np.ones(self.space.size, dtype=bool)
        for name in self.kept:
            free[self.space.slices[name]] = False
        apart = np.abs(own - place)[:, free]
        far = apart.sum(axis=1) + (apart > 1e-9).sum(axis=1) / max(self.space.size, 1)
        inside = np.flatnonzero((answers >= low) & (answers <= high))
        nearest = inside[np.argsort(far[inside], kind="stable")[:CANDIDATES]]
        found = [self._point(int(row)) for row in nearest]
        return [{**one, **{name: self.point[name] for name in self.kept}} for one in found]

    def brought_back(self, candidates: list[dict[str, Any]], low: float, high: float) -> list[dict[str, Any]]:
        """The candidates with as much of the record as leaves the prediction in the range; all asked about at once."""
        if not candidates:
            return []
        said = self.said(candidates)  # asked in blocks of another size, where the last bits may differ
        moving = [one for one, answer in zip(candidates, said, strict=True) if low <= answer <= high]
        done = list[dict[str, Any]]()
        while moving:
            tried = [(i, name) for i, one in enumerate(moving) for name in self.names if one[name] != self.point[name]]
            answers = self.said([{**moving[i], name: self.point[name]} for i, name in tried])
            best: dict[int, tuple[float, str]] = {}
            for (i, name), answer in zip(tried, answers, strict=True):
                if low <= answer <= high:  # the one that moves back most
                    best[i] = min(best.get(i, (np.inf, "")), (abs(float(answer) - self.now), name))
            done += [one for i, one in enumerate(moving) if i not in best]
            moving = [{**moving[i], name: self.point[name]} for i, (_, name) in best.items()]
        return done

    def nearer(self, changed: list[dict[str, Any]], low: float, high: float) -> list[dict[str, Any]]:
        """Numbers moved towards those of the record, one column after the other, as far as the prediction allows."""
        numbers = [name for name in self.names if not isinstance(self.space.domain[name], Categorical)]
        for name in numbers:
            column: Any = self.space.domain[name]
            mine = [i for i, one in enumerate(changed) if one[name] != self.point[name]]
            if not mine:
                continue
            near, far = [float(self.point[name])] * len(mine), [float(changed[i][name]) for i in mine]
            for _ in range(HALVINGS):
                middle = [(a + b) / 2 for a, b in zip(near, far, strict=True)]
                middle = [float(round(one)) if column.integer else one for one in middle]
                answers = self.said([{**changed[i], name: value} for i, value in zip(mine, middle, strict=True)])
                for place, (value, answer) in enumerate(zip(middle, answers, strict=True)):
                    if value not in (near[place], far[place]):
                        (far if low <= answer <= high else near)[place] = value
            short = [value if column.integer else _shorter(column, value, float(self.point[name])) for value in far]
            answers = self.said([{**changed[i], name: value} for i, value in zip(mine, short, strict=True)])
            for i, value, rounded, answer in zip(mine, far, short, answers, strict=True):
                changed[i] = {**changed[i], name: rounded if low <= answer <= high else value}
        return changed

    def way(self, names: Sequence[str], changed: dict[str, Any], said: float) -> Counterfactual:
        now, then = self.shown(self.point), self.shown(changed)
        return Counterfactual({name: (now[name], then[name]) for name in names}, said, self.plausibility(changed))

    def shown(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Values as people write them."""
        return {name: _whole(self.space.domain[name], value) for name, value in point.items()}

    def plausibility(self, point: dict[str, Any]) -> float:
        """The share of synthetic rows that lie at least as far from their neighbours."""
        mine = np.sort(np.linalg.norm(self._coordinates - self.space.locate(point), axis=1))[NEAREST - 1]
        return float((self._reference >= mine - 1e-12).mean())

    @property
    def _coordinates(self) -> Floats:
        rows = self.posterior.synthetic
        if not hasattr(self, "_kept_coordinates"):
            self._kept_coordinates = self.space.coordinates(rows.columns, rows.size)
        return self._kept_coordinates

    @property
    def _reference(self) -> Floats:
        """How far synthetic rows lie from their neighbours."""
        if not hasattr(self, "_kept_reference"):
            some = evenly(self.posterior.weights, min(REFERENCE, self.posterior.synthetic.size))
            own = self._coordinates
            apart = [np.sort(np.linalg.norm(own - own[i], axis=1))[NEAREST] for i in some]  # the row itself is nearest
            self._kept_reference = np.array(apart)
        return self._kept_reference

    def _point(self, row: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self.names:
            column, value = self.space.domain[name], self.posterior.synthetic[name][row]
            found[name] = column.categories[int(value)] if isinstance(column, Categorical) else float(value)
        return found


def _whole(column: Any, value: Any) -> Any:
    if isinstance(column, Categorical):
        return value
    shown = shown_date(column, value)
    return int(shown) if column.integer and isinstance(shown, float) else shown


def _shorter(column: Any, value: float, now: float) -> float:
    """A number to a thousandth of its declared range, away from the one now and within the range."""
    digits = 3 - math.ceil(math.log10(float(column.high) - float(column.low)))
    step = 10.0**-digits
    whole = math.ceil(value / step - 1e-9) if value > now else math.floor(value / step + 1e-9)
    return min(max(round(whole * step, digits), float(column.low)), float(column.high))


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
