"""The released curves of partial dependence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpexplain.methods.curves import MeanCurve
from dpexplain.methods.partial_dependence.spec import Spec


@dataclass(frozen=True)
class DependenceCurve(MeanCurve):
    """The mean prediction at every point of a public grid."""

    kind: ClassVar[str] = "curve"
    spec_type: ClassVar[type[Spec]] = Spec

    @property
    def name(self) -> str:
        return "Partial dependence"
