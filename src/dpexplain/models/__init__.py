"""Adapters from real models to one thing: clean rows in, numbers in a public range out, row by row."""

from dpexplain.models.model import Model, Predictor

__all__ = ["Model", "Predictor"]
