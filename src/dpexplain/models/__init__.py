"""Adapters from real models to one thing: clean rows in, numbers in a public range out, row by row."""

from dpexplain.models.model import Model
from dpexplain.models.pair import ModelPair, predictor_of
from dpexplain.models.predictor import Inputs, Predictor, frame_of
from dpexplain.models.threads import safe_by_default

__all__ = ["Inputs", "Model", "ModelPair", "Predictor", "frame_of", "predictor_of", "safe_by_default"]
