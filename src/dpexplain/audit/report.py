"""What every report of an attack has: words, a table, a file and a picture, each saying that it is not private."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpexplain.core.canonical import JsonObject

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

NOT_PRIVATE = "Not private: made with the exact rows, for the data holder only."


class Report(ABC):
    """Base of the reports of attacks."""

    note: ClassVar[str] = NOT_PRIVATE

    @abstractmethod
    def lines(self) -> list[str]:
        """The result in plain words."""

    @abstractmethod
    def content(self) -> JsonObject:
        """The result as plain numbers and texts."""

    @abstractmethod
    def lists(self) -> list[dict[str, Any]]:
        """The lines of the table."""

    @abstractmethod
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw it."""

    def describe(self) -> str:
        """The result in plain words."""
        return "\n".join([*self.lines(), self.note])

    def __str__(self) -> str:
        return self.describe()

    def to_frame(self) -> pd.DataFrame:
        """A table for people; `attrs["note"]` says that it is not private."""
        import pandas as pd

        frame = pd.DataFrame(self.lists())
        frame.attrs["note"] = self.note
        return frame

    def to_json(self, path: str | Path | None = None) -> str:
        """The result as JSON text, also written to `path` if one is given."""
        text = json.dumps({"note": self.note, **self.content()}, indent=1, allow_nan=False)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text
