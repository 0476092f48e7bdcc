"""PyTorch modules: objects, and files of TorchScript or torch.export. A module is asked about one matrix of numbers."""

from __future__ import annotations

import copy
import io
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from dpexplain.errors import ModelError
from dpexplain.models.kinds.base import Adapter, Array, matrix, needed


class Torch(Adapter):
    """A module in evaluation mode, on the processor or, where there is one, on a GPU. It gets the columns in order, in
    the precision of its own parameters.
    """

    as_array = True
    defaults: ClassVar[Mapping[str, Any]] = {"device": "auto", "trusted": False}

    def __init__(self, source: Any, classes: Sequence[Any] | None, device: str, trusted: bool) -> None:
        torch = needed("torch")
        self.trusted = trusted
        self.device = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
        if isinstance(source, torch.jit.ScriptModule):
            source = _saved(torch, source)
        self.source = source
        if not isinstance(source, bytes) and source.training:
            raise ModelError(
                "the module is in training mode: dropout and batch statistics would make answers random.",
                hint="put it into evaluation mode first",
            )
        self.named(classes)
        kinds = [one.dtype for one in self._live_module.parameters() if one.dtype.is_floating_point]
        self.kind = np.dtype("float64") if kinds and kinds[0] == torch.float64 else np.dtype("float32")

    @classmethod
    def made(cls, source: Any, classes: Sequence[Any] | None, options: Mapping[str, Any]) -> Self:
        return cls(source, classes, options["device"], options["trusted"])

    @cached_property
    def _live_module(self) -> Any:
        torch = needed("torch")
        if isinstance(self.source, bytes):
            return _loaded(torch, self.source, self.trusted).to(self.device)
        return self.source if self.device == "cpu" else copy.deepcopy(self.source).to(self.device)

    def ask(self, inputs: Any) -> Array:
        torch = needed("torch")
        with torch.inference_mode():
            rows = torch.from_numpy(matrix(inputs, self.kind)).to(self.device)
            said: Array = self._live_module(rows).to("cpu").numpy()
        return said[:, 0] if said.ndim == 2 and said.shape[1] == 1 else said


def _saved(torch: Any, module: Any) -> bytes:
    """A module of TorchScript as the bytes of its file, because Python cannot pickle it."""
    kept = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is the older format
        torch.jit.save(module, kept)
    return kept.getvalue()


def _loaded(torch: Any, content: bytes, trusted: bool) -> Any:
    """The module of a file of TorchScript, which an interpreter of its own runs; or of torch.export, whose sizes and
    guards are Python code, and whose examples are pickles: that is for those who trust it. A file of torch.save is a
    pickle, and is refused.
    """
    from dpexplain.models.kinds import SAFE_WAYS

    names = [name.rpartition("/")[2] for name in zipfile.ZipFile(io.BytesIO(content)).namelist()]
    exported = any(name.endswith(".json") for name in names)
    if exported and not trusted:
        raise ModelError(
            "a file of torch.export holds pickles and Python code: loading it runs whatever is in them.",
            hint='if you trust whoever wrote it: options={"trusted": True}; or save the module as TorchScript or ONNX',
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that one of the two formats is older than the other
        if exported:
            return torch.export.load(io.BytesIO(content)).module()
        if "constants.pkl" in names:
            return torch.jit.load(io.BytesIO(content), map_location="cpu").eval()
    raise ModelError("a file of torch.save is a pickle: loading it would run whatever code is in it.", hint=SAFE_WAYS)
