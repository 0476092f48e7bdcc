"""Attacks on our own releases. Nothing else in dpexplain imports this package.

An audit runs a mechanism many times on two neighbouring inputs and tells them apart as well as it can. What it returns
is a *lower* bound on the privacy loss: it can prove a claim wrong, it cannot prove one right.
"""

from dpexplain.audit.lower_bound import LowerBound, epsilon_lower_bound

__all__ = ["LowerBound", "epsilon_lower_bound"]
