"""What a caller decides about marginals."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dpexplain.methods.request import Mechanism, Names, Request

CELLS = 64


class MarginalsRequest(Request):
    """Histograms of several features, for one cost."""

    features: Annotated[Names, Field(description="Which features; by default all declared ones.")] = None
    cells: Annotated[int, Field(ge=1, description="Cells of a continuous feature, or of one with many values.")] = CELLS
    mechanism: Mechanism = None

    @property
    def label(self) -> str:
        return "marginals of " + ("all features" if self.features is None else ", ".join(self.features))
