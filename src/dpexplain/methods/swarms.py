"""All columns and all classes in one picture: what moves the predictions for synthetic rows. Free.

For some synthetic rows, taken by their weights, a local linear model says what each column adds to the prediction
beside an average row. A dot is a synthetic row: nobody. Values have no interval of their own here: `Posterior.explain`
says for one row how sure its contributions are.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.columns import Names
from dpexplain.errors import InputError, ModelError
from dpexplain.maths.surrogate import StepWeight
from dpexplain.maths.surrogate.rows import WeightedRows
from dpexplain.methods.evidence import Asked
from dpexplain.methods.shapley_rows import evenly
from dpexplain.models import Model
from dpexplain.models.classes import classes_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from dpexplain.methods.posterior import Posterior

Floats = NDArray[np.float64]

ROWS, MOST_ROWS = 200, 2_000
MOST_CLASSES = 12


@dataclass(frozen=True, eq=False)
class Summary:
    """Contributions of columns to the predictions for synthetic rows.

    classes        a name for each class; one, the model's own, where a single output is explained
    contributions  [class, row, feature], beside an average row, in units of the output
    places         [row, feature]: where the row's value lies between the declared ends, 0 to 1
    basis          what all of this rests on, in a sentence
    """

    features: tuple[str, ...]
    classes: tuple[str, ...]
    contributions: Floats
    places: Floats
    names: Names
    basis: str

    @property
    def sizes(self) -> Floats:
        """[class, feature]: the mean size of contributions."""
        return np.asarray(np.abs(self.contributions).mean(axis=1))

    @property
    def order(self) -> list[int]:
        """The features, the one with the largest contributions first."""
        return [int(i) for i in np.argsort(-self.sizes.mean(axis=0), kind="stable")]

    @property
    def values(self) -> Floats:
        """Mean sizes, in the order of `to_frame()`."""
        return np.asarray(self.sizes[:, self.order].ravel())

    @property
    def title(self) -> str:
        return "What moves predictions: each dot is a synthetic row, nobody"

    def to_frame(self) -> pd.DataFrame:
        """A line for each class and feature: the mean size of its contributions, and whether high values raise."""
        import pandas as pd

        lines = [
            (label, self.features[j], self.sizes[c, j], self.direction(c, j))
            for c, label in enumerate(self.classes)
            for j in self.order
        ]
        frame = pd.DataFrame(lines, columns=["class", "feature", "mean size", "direction"])
        frame.attrs["basis"] = self.basis
        return frame

    def direction(self, label: int, feature: int) -> float:
        """How contributions go with the value of the feature, -1 to 1; 0 where neither varies."""
        place, added = self.places[:, feature], self.contributions[label, :, feature]
        if place.std() < 1e-12 or added.std() < 1e-12:
            return 0.0
        return float(np.corrcoef(place, added)[0, 1])

    def plot(self, *, titled: bool = True) -> Figure:
        """A swarm of dots for each feature, a panel for each class; without words around it where a page has them."""
        from dpexplain.render.views import figure_of_summary

        return figure_of_summary(self, titled=titled)


def summary(posterior: Posterior, rows: int, *, classes: bool) -> Summary:
    """Explain so many synthetic rows, as their weights say."""
    if isinstance(rows, bool) or not isinstance(rows, int) or not 10 <= rows <= MOST_ROWS:
        raise InputError(f"rows are a whole number from 10 to {MOST_ROWS:,}; got {rows!r}."[:200], spent="")
    local = posterior.local.rows
    picked = evenly(local.weights, rows)
    views = _by_class(posterior, local) if classes else [(_own(posterior), local)]
    found = np.stack([_contributions(view, local.coordinates[picked]) for _, view in views])
    space = local.space
    places = np.empty((rows, len(space.features)))
    for j, (name, where) in enumerate(space.slices.items()):
        some = local.coordinates[picked, where]
        codes = np.argmax(some, axis=1) / max(space.counts[name] - 1, 1)
        places[:, j] = codes if space.counts[name] else some[:, 0]
    labels = tuple(str(name) for name, _ in views)
    names = posterior.stand_in.receipt.names
    return Summary(tuple(space.features), labels, found, places, names, posterior.basis)


def _own(posterior: Posterior) -> str:
    label = posterior.model.label
    return posterior.model.name if label is None else str(label)


def _contributions(rows: WeightedRows, places: Floats) -> Floats:
    """[row, feature]: what each feature adds beside the average row."""
    steps = StepWeight.of("stable", rows.space.diameter, width=1.0)
    half, mean = rows.output.width / 2, rows.mean
    lines = [near.phi * half * (z - mean) for z, near in zip(places, rows.around(places, steps, None), strict=True)]
    return rows.space.by_feature(np.array(lines))


def _by_class(posterior: Posterior, local: WeightedRows) -> list[tuple[Any, WeightedRows]]:
    """The synthetic rows as each class of the model scores them."""
    names: Sequence[Any] = classes_of(posterior.model)
    if len(names) > MOST_CLASSES:
        raise ModelError(f"a picture of {len(names)} classes cannot be read.", hint="classes=False explains one")
    return [(name, replace(local, predictions=_scores(posterior, name))) for name in names]


def _scores(posterior: Posterior, label: Any) -> Floats:
    """What the model says about the synthetic rows as the probability of another class."""
    sibling: Model = copy.copy(posterior.model)
    sibling.label = label
    sibling._begin()
    predictor = sibling.checked(posterior.stand_in.domain)
    return Asked(sibling, predictor, posterior.synthetic).raw({})
