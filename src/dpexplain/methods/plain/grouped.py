"""Predictions for rows that were dealt to parts, as whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.domain import PublicRange
from dpexplain.data.rows import Rows
from dpexplain.models import Predictor

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Levels:
    """A model's predictions as whole numbers {0..levels}; a row on which the model fails counts as the middle."""

    predictor: Predictor
    output: PublicRange

    def at(self, rows: Rows, settings: Sequence[Mapping[str, Any]]) -> Integers:
        """Predictions [setting, row] of a few rows, with some columns held at other values."""
        inputs = self.predictor.inputs(rows)
        answers = [self.output.quantize(self.predictor.predict_at(inputs, fixed)) for fixed in settings]
        return np.array(answers, dtype=np.int64).reshape(len(settings), rows.size)
