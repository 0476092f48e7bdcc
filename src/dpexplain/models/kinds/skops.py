"""skops files: estimators of scikit-learn without a pickle. Types that skops does not know must be named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dpexplain.errors import ModelError
from dpexplain.models.kinds.base import Adapter, needed


class Skops(Adapter):
    """Gives the estimator in the file itself."""

    defaults: ClassVar[Mapping[str, Any]] = {"trusted": []}

    @classmethod
    def made(cls, source: Any, classes: Sequence[Any] | None, options: Mapping[str, Any]) -> Any:
        library, trusted = needed("skops.io"), options["trusted"]
        unknown = sorted(set(library.get_untrusted_types(data=source)) - set(trusted))
        if unknown:
            raise ModelError(
                f"the file holds types that skops does not know to be safe: {', '.join(unknown)}.",
                hint='if you trust them, name them: options={"trusted": [...]}',
            )
        if classes is not None:
            raise ModelError("an estimator knows its classes.", hint="leave classes out")
        return library.loads(source, trusted=list(trusted))
