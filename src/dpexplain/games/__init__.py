"""Influence as coalitional games: which inputs are replaced, how outcomes become influences, how large they can be.

Nothing here spends or makes noise. `explainers/influence.py` sums the influences of rows; for one person they need no
table at all, only released marginals.
"""

from dpexplain.games.groups import Group
from dpexplain.games.outcomes import Asker, Outcome
from dpexplain.games.plans import Norms, Plan, coalitions_plan, exact_plan, norms, orders_plan, outcomes_plan, sets_plan

__all__ = [
    "Asker",
    "Group",
    "Norms",
    "Outcome",
    "Plan",
    "coalitions_plan",
    "exact_plan",
    "norms",
    "orders_plan",
    "outcomes_plan",
    "sets_plan",
]
