"""Inputs that are named tensors: which columns go into which, and as what. For ONNX files and model servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpexplain.errors import ModelError
from dpexplain.models.kinds.base import Array, coded, texts


@dataclass(frozen=True)
class Tensor:
    """One input of a model.

    kind    of its values, a type of numpy; object for texts
    width   how many columns it takes; 0 for a vector; None where the model leaves it open
    names   of the columns; none for a single matrix of all columns in the order of the model's features
    """

    name: str
    kind: Any
    width: int | None
    names: tuple[str, ...] = ()


def layout(tensors: Sequence[Tensor], chosen: Any) -> tuple[Tensor, ...]:
    """Which columns each input takes: as the caller says; else all in a single matrix, or each in one of its name."""
    if chosen is not None:
        right = isinstance(chosen, Mapping) and set(chosen) == {one.name for one in tensors}
        lists = right and all(isinstance(v, list | tuple) and v for v in chosen.values())
        if not lists:
            names = ", ".join(repr(one.name) for one in tensors)
            raise ModelError(
                f"options inputs names the columns of every input of the model: {names}.",
                hint='options={"inputs": ...}; docs/models.md has an example',
            )
        for one in tensors:
            if one.width is not None and max(one.width, 1) != len(chosen[one.name]):
                raise ModelError(
                    f"the input {one.name!r} of the model takes {max(one.width, 1)} columns, and "
                    f"{len(chosen[one.name])} are named."
                )
        return tuple(Tensor(one.name, one.kind, one.width, tuple(map(str, chosen[one.name]))) for one in tensors)
    if len(tensors) == 1 and tensors[0].width != 0:
        return tuple(tensors)
    wide = [one.name for one in tensors if one.width not in (0, 1)]
    if wide:
        raise ModelError(
            f"the model has several inputs, and {wide[0]!r} takes several columns.",
            hint='say which: options={"inputs": ...}; docs/models.md has an example',
        )
    return tuple(Tensor(one.name, one.kind, one.width, (one.name,)) for one in tensors)


def feed(tensors: Sequence[Tensor], rows: Any) -> dict[str, Array]:
    """The rows as the inputs of the model."""
    return {one.name: _values(one, rows) for one in tensors}


def _values(tensor: Tensor, rows: Any) -> Array:
    if tensor.width and tensor.width != (len(tensor.names) or rows.shape[1]):
        raise ValueError(
            f"the model takes {tensor.width} columns, and {rows.shape[1]} are declared: Model(features=[...])"
        )
    if isinstance(rows, np.ndarray):
        return _converted(rows, tensor)
    names = tensor.names or tuple(rows.columns)
    read = texts if tensor.kind is np.object_ else _numbers
    if tensor.width == 0:
        return _converted(read(rows[names[0]]), tensor)
    made = np.empty((len(rows), len(names)), dtype=tensor.kind)
    for j, name in enumerate(names):
        made[:, j] = _converted(read(rows[name]), tensor)
    return made


def _numbers(column: Any) -> Any:
    return coded(column, None)


def _converted(values: Any, tensor: Tensor) -> Array:
    """Numbers as the type of the input. Whole numbers take no missing value and no fraction."""
    if tensor.kind is np.object_ or np.issubdtype(tensor.kind, np.floating):
        return np.ascontiguousarray(values, dtype=tensor.kind)
    whole = np.asarray(values)
    if whole.dtype.kind == "f" and not (np.isfinite(whole).all() and (whole == np.rint(whole)).all()):
        raise ValueError(f"the input {tensor.name!r} of the model takes whole numbers")
    return np.ascontiguousarray(whole.astype(tensor.kind))
