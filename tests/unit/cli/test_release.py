"""What commands print for programs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from dpexplain.cli.release import _records


def test_an_interval_without_an_end_is_null_in_json():
    """R2 has none below where the noise hides how much the target differs."""
    frame = pd.DataFrame({"name": ["R2", "auc"], "low": [-np.inf, 0.5], "high": [np.inf, np.nan]})
    told = json.loads(json.dumps(_records(frame), allow_nan=False))
    assert told == [{"name": "R2", "low": None, "high": None}, {"name": "auc", "low": 0.5, "high": None}]
