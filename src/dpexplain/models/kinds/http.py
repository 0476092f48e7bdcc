"""Models behind a server that speaks the Open Inference Protocol, version 2, over HTTP (KServe, MLServer, Triton).

A block of rows is sent in several requests of one public number of rows each, at the same time. A request that does not
get through is sent again, up to a number of times. Then one public request is sent, which the server answered before:
if that is answered, the failure belongs to the rows that were asked about, which count as failed; if it is not, the
server is away, and nothing more is sent for a while. No error quotes what a server said.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import selectors
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from dpexplain.errors import ModelError
from dpexplain.models.kinds.base import Adapter, Array
from dpexplain.models.kinds.tensors import Tensor, feed, layout

TYPES = {
    **{f"INT{bits}": np.dtype(f"int{bits}").type for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"uint{bits}").type for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"float{bits}").type for bits in (16, 32, 64)},
    "BOOL": np.bool_,
    "BYTES": np.object_,
}
BUSY = (429, 502, 503, 504)  # a server that says so may answer later
PAUSE, AWAY = 0.05, 30.0  # seconds: before the second try, doubled before each one after; and until it is asked again
LONGEST = 28  # bytes of a number as JSON, also in quotes, and what stands between two of them
TOKEN = "DPEXPLAIN_MODEL_TOKEN"  # the name of the variable, never its content


class Unanswered(Exception):
    """A request to which there was no answer that can be used. Its text holds nothing that the server said."""


class Served(Adapter):
    """A model on a server. Its inputs are as its metadata say: one matrix, or one for each column by its name.

    timeout      seconds for each request
    retries      how often a request is sent again that did not get through
    connections  how many requests are sent at once
    max_bytes    the largest request that rows could make, and the largest answer
    """

    thread_safe = True  # each request has a connection to itself
    defaults: ClassVar[Mapping[str, Any]] = {
        "inputs": None, "output": "", "timeout": 30.0, "retries": 3, "connections": 8, "max_bytes": 2**26,
    }  # fmt: skip

    def __init__(self, url: str, classes: Sequence[Any] | None, options: Mapping[str, Any]) -> None:
        self.url, self.options = url.rstrip("/"), dict(options)
        parts = urlsplit(self.url)
        names = parts.path.split("/")
        if not parts.hostname or "v2" not in names or "models" not in names or parts.username:
            raise ModelError(
                "this is no address of a model that speaks the Open Inference Protocol v2.",
                hint="http://host:8000/v2/models/NAME/versions/1; a token goes into the variable " + TOKEN,
            )
        for name, least in (("timeout", 0.001), ("retries", 0), ("connections", 1), ("max_bytes", 1000)):
            if not least <= options[name] <= 2**31:
                raise ModelError(f"the option {name} of a model server must be at least {least}.")
        self.asked: bytes | None = None  # a public request, to which there was an answer
        self._begin()
        known = self._metadata()
        try:
            tensors = [Tensor(one["name"], TYPES[one["datatype"]], _columns(one["shape"])) for one in known["inputs"]]
            self.outputs = [one["name"] for one in known.get("outputs", [])]
            self.kinds = {one["name"]: one["datatype"] for one in known["inputs"]}
            if not tensors:
                raise KeyError
            if not all(re.fullmatch(r"[\w.:/ -]{1,64}", name) for name in (*self.kinds, *self.outputs)):
                raise KeyError
        except ModelError:
            raise
        except (KeyError, TypeError, ValueError):
            raise ModelError("the server describes its model in a way that is not understood.") from None
        self.tensors = layout(tensors, options["inputs"])
        columns = [name for tensor in self.tensors for name in tensor.names]
        if columns:
            self.feature_names_in_ = columns
        else:
            self.as_array = tensors[0].kind is not np.object_
        self.output = _chosen(self.outputs, options["output"])
        self.named(classes)

    @classmethod
    def made(cls, source: Any, classes: Sequence[Any] | None, options: Mapping[str, Any]) -> Self:
        return cls(source, classes, options)

    def _begin(self) -> None:
        vars(self).pop("_live_pool", None)
        self._live_process = os.getpid()
        self._live_lock, self._live_until = threading.Lock(), 0.0
        self._live_idle: deque[http.client.HTTPConnection] = deque()
        weakref.finalize(self, _close_all, self._live_idle)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    @cached_property
    def _live_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.options["connections"], thread_name_prefix="dpexplain-model")

    # Asking ----------------------------------------------------------------------------------------------------------

    def ask(self, inputs: Any) -> Array:
        if self._live_process != os.getpid():  # a fork has the parent's connections, whose answers are the parent's
            self._begin()
        size, connections = len(inputs), self.options["connections"]
        ends = np.linspace(0, size, min(connections, size) + 1).astype(int)
        pieces = [inputs[a:b] if isinstance(inputs, np.ndarray) else inputs.iloc[a:b] for a, b in pairwise(ends)]
        waiting = [self._live_pool.submit(self._piece, piece) for piece in pieces]
        try:
            return np.concatenate([one.result() for one in waiting])
        finally:
            for one in waiting:
                one.cancel()

    def _piece(self, rows: Any) -> Array:
        inputs = feed(self.tensors, rows)
        if (most := self._most_bytes(rows, inputs)) > self.options["max_bytes"]:
            raise Unanswered(f"a request may have {most} bytes, more than the option 'max_bytes': use block=256")
        return self._numbers(self._answer(self._body(inputs)), len(rows))

    def _body(self, inputs: Mapping[str, Array], *, empty: bool = False) -> bytes:
        written = [
            {
                "name": name,
                "shape": list(values.shape),
                "datatype": self.kinds[name],
                "data": [] if empty else values.ravel().tolist(),
            }
            for name, values in inputs.items()
        ]
        return json.dumps({"inputs": written, **({"outputs": [{"name": self.output}]} if self.output else {})}).encode()

    def _most_bytes(self, rows: Any, inputs: Mapping[str, Array]) -> int:
        """The size of the largest request about so many rows. Were it that of these rows, whether a row is answered
        would depend on how long the numbers and words of the rows beside it are.
        """
        most = len(self._body(inputs, empty=True)) + LONGEST * sum(values.size for values in inputs.values())
        kinds = [] if isinstance(rows, np.ndarray) else [k for k in rows.dtypes if isinstance(k, pd.CategoricalDtype)]
        words = [max(len(json.dumps(str(word))) for word in kind.categories) + len(", ") for kind in kinds]
        return most + len(rows) * sum(max(word - LONGEST, 0) for word in words)

    def _numbers(self, said: Any, size: int) -> Array:
        """The numbers in an answer: as many lines as rows were sent."""
        try:
            found = [one for one in said["outputs"] if not self.output or one["name"] == self.output]
            one = found[0]
            values: Array = np.array(one["data"], dtype=TYPES[one["datatype"]])
            shape = [int(n) for n in one["shape"]]
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            raise Unanswered("the server's answer is not understood") from None
        if len(found) != 1 or values.dtype == object:
            raise Unanswered("the server's answer has several outputs")
        if not shape or shape[0] != size or values.size != int(np.prod(shape)) or len(shape) > 2:
            raise Unanswered(f"the server answered {size} rows with another number of rows or another shape")
        return values.reshape(size) if values.size == size else values.reshape(shape)

    def _answer(self, body: bytes) -> Any:
        """What the server says; sent again where it did not get through."""
        if time.monotonic() < self._live_until:
            raise Unanswered("the server did not answer a moment ago")
        try:
            said = self._sent("POST", "/infer", body, self.options["retries"])
        except Unanswered as error:
            if getattr(error, "away", False) and self.asked is not None and body != self.asked:
                self._see_whether_it_is_there()
            raise
        if self.asked is None:
            self.asked = body  # the first rows that a model is asked about are always public ones (`models.check`)
        return said

    def _see_whether_it_is_there(self) -> None:
        """Whether a request that was answered before is answered still. If so, rows failed; else the server is away."""
        with self._live_lock:
            if time.monotonic() < self._live_until:
                return
            try:
                self._sent("POST", "/infer", self.asked, 0)
            except Unanswered:
                self._live_until = time.monotonic() + AWAY

    def _metadata(self) -> Any:
        try:
            return self._sent("GET", "", None, self.options["retries"])
        except Unanswered as error:
            raise ModelError(
                f"the model server does not say what its model takes: {error}.",
                hint=f"is {urlsplit(self.url).netloc} the right address, and does the server run?",
            ) from None

    def _sent(self, method: str, path: str, body: bytes | None, retries: int) -> Any:
        for number in range(retries + 1):
            try:
                return self._once(method, path, body)
            except Unanswered as error:
                if not getattr(error, "away", False) or number == retries:
                    raise
                time.sleep(PAUSE * 2**number)
        raise Unanswered("no answer")

    def _once(self, method: str, path: str, body: bytes | None) -> Any:
        """One request and its answer. That the server has closed a connection that was kept is no failure."""
        until = time.monotonic() + self.options["timeout"]
        while self._live_idle:
            try:
                kept = self._live_idle.popleft()
            except IndexError:  # another thread was quicker
                break
            if _has_spoken(kept):
                kept.close()
                continue
            try:
                return self._over(kept, method, path, body, until)
            except (ConnectionError, http.client.RemoteDisconnected):
                continue
        try:
            return self._over(self._connection(), method, path, body, until)
        except ConnectionError:
            raise _away("it does not answer in time, or not at all") from None

    def _over(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, until: float
    ) -> Any:
        """The answer over this connection, which is kept for the next request where all went well."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token := os.environ.get(TOKEN):
            headers["Authorization"] = f"Bearer {token}"
        whole = False
        try:
            connection.request(method, urlsplit(self.url).path + path, body, headers)
            answer = connection.getresponse()
            text = _read(answer, self.options["max_bytes"], until)
            answer.close()  # of this answer: the connection stays open
            whole = not answer.will_close
        except ssl.SSLCertVerificationError:
            raise Unanswered("its certificate does not match its name, or nobody known has signed it") from None
        except ConnectionError:
            raise
        except (OSError, http.client.HTTPException):
            raise _away("it does not answer in time, or not at all") from None
        finally:
            if whole:
                self._live_idle.append(connection)
            else:
                connection.close()  # what is left of a broken answer must not be read as the next one
        if answer.status != 200:
            said = f"it answers with status {answer.status}"
            raise _away(said) if answer.status in BUSY else Unanswered(said)
        try:
            return json.loads(text)
        except ValueError:
            raise Unanswered("its answer is no JSON") from None

    def _connection(self) -> http.client.HTTPConnection:
        parts, timeout = urlsplit(self.url), self.options["timeout"]
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(str(parts.hostname), parts.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout)


def _has_spoken(connection: http.client.HTTPConnection) -> bool:
    """Whether something lies on a kept connection before anything was asked: its end, or what a server sent behind an
    answer, which would be read as the answer for other rows.
    """
    held = connection.sock
    if held is None or (isinstance(held, ssl.SSLSocket) and held.pending()):
        return True
    with selectors.DefaultSelector() as waiting:
        waiting.register(held, selectors.EVENT_READ)
        return bool(waiting.select(0))


def _close_all(connections: deque[http.client.HTTPConnection]) -> None:
    for connection in connections:
        connection.close()


def _read(answer: http.client.HTTPResponse, limit: int, until: float) -> bytes:
    """The body of an answer, of no more than `limit` bytes, and in time although it may come in drops."""
    pieces, many = [], 0
    while piece := answer.read1(2**16):
        pieces.append(piece)
        many += len(piece)
        if many > limit:
            raise Unanswered("its answer is larger than the option 'max_bytes'")
        if time.monotonic() > until:
            raise TimeoutError
    return b"".join(pieces)


def _away(text: str) -> Unanswered:
    error = Unanswered(text)
    error.away = True  # type: ignore[attr-defined]
    return error


def _columns(shape: Sequence[Any]) -> int | None:
    if len(shape) == 1:
        return 0
    if len(shape) != 2:
        raise ModelError(f"an input of the model has {len(shape)} dimensions; a table has two.")
    return int(shape[1]) if int(shape[1]) > 0 else None


def _chosen(outputs: Sequence[str], chosen: str) -> str:
    if chosen in outputs or (not outputs and not chosen):
        return chosen
    if len(outputs) == 1 and not chosen:
        return outputs[0]
    raise ModelError(
        f"say which output of the model is explained: it has {', '.join(map(repr, outputs))}.",
        hint='options={"output": "probabilities"}',
    )
