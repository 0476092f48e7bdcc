"""ONNX files, run by onnxruntime on the processor: one thread for each call, so that sums keep their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from dpexplain.errors import ModelError
from dpexplain.models.kinds.base import Adapter, Array, needed
from dpexplain.models.kinds.tensors import Tensor, feed, layout

TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}
PROBABILITIES = ("probabilities", "output_probability")  # as skl2onnx and onnxmltools call them


class Onnx(Adapter):
    """One matrix of all columns, one input for each column by its name, or inputs with the columns named in options."""

    thread_safe = True  # a session may be run by several threads at once, by its documentation
    defaults: ClassVar[Mapping[str, Any]] = {"inputs": None, "output": ""}

    def __init__(self, content: bytes, classes: Sequence[Any] | None, options: Mapping[str, Any]) -> None:
        self.content, session = content, _session(content)
        known = [Tensor(one.name, _type(one), _columns(one.shape)) for one in session.get_inputs()]
        self.tensors = layout(known, options["inputs"])
        names = [name for tensor in self.tensors for name in tensor.names]
        if names:
            self.feature_names_in_ = names
        else:
            self.as_array = known[0].kind is not np.object_
        self.output, self.mapped = _output(session.get_outputs(), options["output"])
        self.named(classes)

    @classmethod
    def made(cls, source: Any, classes: Sequence[Any] | None, options: Mapping[str, Any]) -> Self:
        return cls(source if isinstance(source, bytes) else source.SerializeToString(), classes, options)

    @cached_property
    def _live_session(self) -> Any:
        return _session(self.content)

    def ask(self, inputs: Any) -> Array:
        said = self._live_session.run([self.output], feed(self.tensors, inputs))[0]
        if self.mapped:  # for each row a dictionary, from the name of a class to its probability
            names = getattr(self, "classes_", None)
            if names is None:
                raise ValueError("the model says a probability for each class: name them with classes=[...]")
            if set(said[0]) != set(names):
                raise ValueError(f"the classes of the model are {', '.join(map(repr, said[0]))}")
            said = np.array([[row[name] for name in names] for row in said], dtype=np.float32)
        return np.asarray(said)


def _session(content: bytes) -> Any:
    runtime = needed("onnxruntime")
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.use_deterministic_compute = True
    settings.log_severity_level = 4  # no warnings, which may quote values
    return runtime.InferenceSession(content, settings, providers=["CPUExecutionProvider"])


def _type(tensor: Any) -> Any:
    if tensor.type not in TYPES:
        raise ModelError(f"the input {tensor.name!r} of the model has the type {tensor.type}, which is not supported.")
    return TYPES[tensor.type]


def _columns(shape: Sequence[Any]) -> int | None:
    """How many columns an input takes: one for a vector; None where the file leaves it open."""
    if len(shape) == 1:
        return 0
    if len(shape) != 2:
        raise ModelError(
            f"an input of the model has {len(shape)} dimensions; a table has two.",
            hint="use a function of a DataFrame that reshapes its rows and runs the model",
        )
    return shape[1] if isinstance(shape[1], int) else None


def _output(outputs: Sequence[Any], chosen: str) -> tuple[str, bool]:
    """The name of the output that is explained, and whether it is a dictionary for each row."""
    numbers = [one for one in outputs if one.type.startswith("seq(map(") or one.type.removeprefix("tensor(") in _FLOATS]
    usual = [one for one in numbers if one.name == chosen] if chosen else numbers
    if len(usual) > 1:
        usual = [one for one in usual if one.name in PROBABILITIES]
    if len(usual) != 1:
        names = ", ".join(repr(one.name) for one in outputs)
        raise ModelError(
            f"say which output of the model is explained: it has {names}.", hint='options={"output": "probabilities"}'
        )
    return usual[0].name, usual[0].type.startswith("seq(")


_FLOATS = ("float)", "double)", "float16)")
