"""The released curves of partial dependence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from dpexplain.methods.curves import MeanCurve
from dpexplain.methods.partial_dependence.spec import Spec, prior
from dpexplain.methods.sharpening import Ask


@dataclass(frozen=True)
class DependenceCurve(MeanCurve):
    """The mean prediction at every point of a public grid."""

    kind: ClassVar[str] = "curve"
    spec_type: ClassVar[type[Spec]] = Spec

    @property
    def name(self) -> str:
        return "Partial dependence"

    @property
    def label(self) -> Any:
        """The class whose probability it is about, where the curves of all classes were released together."""
        classes = self.spec.classes
        return classes[self.index % len(classes)] if classes else None

    @property
    def key(self) -> str:
        return f"{self.feature}: {self.label}" if self.spec.classes else self.feature

    @property
    def title(self) -> str:
        return f"{super().title}, class {self.label}" if self.spec.classes else super().title

    @property
    def _counted_from(self) -> float:
        return self.spec.sums.origin  # type: ignore[no-any-return]

    @property
    def _ask(self) -> Ask:
        part = None if self.sharpening is None else self.sharpening.part
        curves = range(len(self.spec.views)) if part is None else (part,)
        return partial(prior, spec=self.spec, curves=curves)
