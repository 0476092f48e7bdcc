"""The released curves of partial dependence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

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
    def _ask(self) -> Ask:
        part = None if self.sharpening is None else self.sharpening.part
        views = self.spec.views if part is None else (self.spec.views[part],)
        return partial(prior, spec=self.spec, views=views)
