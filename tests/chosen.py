"""Which rows of a unit are used, computed one row at a time: what `data/units.py` is compared with."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

import dpexplain as dpx

WORD = 2**64 - 1


def hash_of(values: Sequence[float | int], unit: Hashable) -> int:
    """The hash of a row of clean values (floats, or the codes of categories as whole numbers) and of its unit's id."""
    found = 0x9E3779B97F4A7C15
    words = [struct.pack("<d" if isinstance(value, float) else "<q", value) for value in values]
    for word in [*words, hashlib.blake2b(f"id:{unit}".encode(), digest_size=8).digest()]:
        bits = int.from_bytes(word, "little")
        found = ((found ^ bits) + 0x9E3779B97F4A7C15) & WORD
        found = (found ^ (found >> 30)) * 0xBF58476D1CE4E5B9 & WORD
        found = (found ^ (found >> 27)) * 0x94D049BB133111EB & WORD
        found ^= found >> 31
    return found


def chosen(rows: Sequence[Sequence[float | int]], units: Sequence[Hashable], most: int) -> list[int]:
    """The places of the rows that are used, in order."""
    places = sorted(range(len(rows)), key=lambda i: (hash_of(rows[i], units[i]), i))
    mine: dict[Hashable, list[int]] = {}
    for place in places:
        mine.setdefault(units[place], []).append(place)
    return sorted(place for of_one in mine.values() for place in of_one[:most])


def rows_used(frame: pd.DataFrame, domain: dpx.Domain, column: str, most: int) -> pd.DataFrame:
    """The rows of a frame that are used, of which `column` says whose they are."""
    clean: list[list[float | int]] = []
    for name, declared in domain.items():
        if isinstance(declared, dpx.Categorical):
            clean.append([declared.categories.index(value) for value in frame[name]])
        else:
            clean.append(declared.clean(frame[name].to_numpy(dtype=np.float64)).tolist())
    return frame.iloc[chosen(list(zip(*clean, strict=True)), frame[column].tolist(), most)]
