"""Worst-case neighbouring tables for every method, a file for each subject; the registrations of the methods name them.

Tiny tables, made up so that one unit moves the statistic as far as the bound allows, or as near to it as a search came.
"""

from __future__ import annotations

from typing import Any

from dpexplain.audit.cases import Run
from dpexplain.methods.registry import method_of
from dpexplain.methods.request import Request


def asks(request: Request, model: Any = None) -> Run:
    """A release: this request about this model, for whatever cost."""
    method = method_of(request)
    explain = method.load(method.explain)
    return lambda table, cost: explain(table, model, request, cost=cost)
