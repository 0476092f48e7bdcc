"""Attacks on our own releases. Nothing else in dpexplain imports this package.

An audit runs a mechanism many times on two neighbouring inputs and tells them apart as well as it can. What it returns
is a *lower* bound on the privacy loss: it can prove a claim wrong, it cannot prove one right. What an attack returns is
made with the exact rows and is not private.

    any mechanism      lower_bound.py  membership.py  table_reconstruction.py  reconstruction.py (explained records)
    every method       releases.py: exact losses and draws on worst_cases/, made-up tables
    a user's project   project.py: plan and runs of `dpexplain audit`; subject.py: rows and pairs; own_releases.py: what
                       is asked of them; explained.py: explained records; project_report.py: what came out
    captured releases  capture.py: one release on two tables, its exact loss, its noise again; calls.py  cases.py
    attackers          likelihood.py  attack_models.py  guesses.py
    shared             bounds.py (arithmetic)  claims.py (what a claim allows)  runs.py  measured.py  report.py
"""

from dpexplain.audit.claims import most_advantage, most_success, most_true_positives
from dpexplain.audit.lower_bound import LowerBound, epsilon_lower_bound
from dpexplain.audit.membership import Membership, membership
from dpexplain.audit.reconstruction import Reconstruction, reconstruction
from dpexplain.audit.releases import audit_all, audit_release, every_case
from dpexplain.audit.report import NOT_PRIVATE
from dpexplain.audit.table_reconstruction import TableReconstruction, table_reconstruction

__all__ = [
    "NOT_PRIVATE",
    "LowerBound",
    "Membership",
    "Reconstruction",
    "TableReconstruction",
    "audit_all",
    "audit_release",
    "epsilon_lower_bound",
    "every_case",
    "membership",
    "most_advantage",
    "most_success",
    "most_true_positives",
    "reconstruction",
    "table_reconstruction",
]
