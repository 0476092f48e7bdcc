"""dpexplain: explain machine-learning models and clusterings with differential privacy.

    core/        trusted: budgets, sensitivities, noise, the door
    ledger/      trusted: what was spent and released, hash-chained, in SQLite or PostgreSQL
    data/        rows and what is declared about them          engines/  sums over rows and over groups of rows
    models/      any model, row by row                         maths/    what methods share and no row enters
    methods/     a folder for each method: request, spec, release, result, one registration
    render/      pictures, pages and text of results           verification  a published result against the ledger
    project/     the project file; open, forecast, release, publish
    cli/         the command `dpexplain`                       demo/     one of each, on one page
    audit/       attacks on our own releases                   design/   data-flow diagrams: where noise must go
    requests     what a caller decides, frozen                 results   what a release returns
    calculators/ what a promise is worth, without data         errors    what went wrong, and what was spent

An explanation is a pure statistic with a proven sensitivity, released once through one door; everything after the door
is post-processing.

The public names stand in `__init__.pyi`. A name is imported when somebody asks for it: `import dpexplain` alone loads
nothing heavy, and no attack.
"""

import ast as _ast
from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import Any as _Any


def _homes() -> dict[str, str]:
    """The module that each public name comes from, as the stub file says; of a module itself, "dpexplain"."""
    stub = _ast.parse(_Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    lines = [line for line in stub.body if isinstance(line, _ast.ImportFrom)]
    return {name.name: str(line.module) for line in lines for name in line.names}


_HOMES = _homes()
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> _Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("dpexplain")
    home = _HOMES.get(name, "dpexplain")
    try:
        module = _import_module(f"dpexplain.{name}" if home == "dpexplain" else home)
    except ModuleNotFoundError as error:
        if error.name == f"dpexplain.{name}":
            raise AttributeError(f"module 'dpexplain' has no attribute {name!r}") from None
        raise
    value = module if home == "dpexplain" else getattr(module, name)
    globals()[name] = value  # the next time it is there
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
