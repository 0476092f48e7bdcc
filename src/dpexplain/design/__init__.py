"""Designing a private explainer: where noise has to be added so that nothing leaves without it."""

from dpexplain.design.dataflow import DataFlow, Option

__all__ = ["DataFlow", "Option"]
