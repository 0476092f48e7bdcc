"""dpexplain: explain machine-learning models and clusterings with differential privacy."""
from dpexplain.core.budget import Budget
from dpexplain.core.domain import Categorical, Domain, Numeric
from dpexplain.core.sensitivity import Unit
from dpexplain.data import PrivateTable
from dpexplain.explainers import marginals, partial_dependence
from dpexplain.models import Model
