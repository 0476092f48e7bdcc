"""Curves made better by what is public: the prior of their numbers, from synthetic rows (`maths/posterior.py`).

Synthetic rows come from the best stand-in that is free for a request: one that is handed over, the histograms that the
release pays for anyway, or the declared domain. The model is asked about them as it was about the rows of the table.

What it said is kept in the ledger, as a model's answers to the public rows of its check are: the first answers count,
so that a curve stays the same on every machine, and an auditor who does not have the model can see that a file holds
what was kept. Whoever has the model can ask it again (`verify(result, ledger, model)`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpexplain.core.budget import Cost
from dpexplain.core.canonical import JsonObject, digest
from dpexplain.core.domain import Domain
from dpexplain.data.rows import Rows
from dpexplain.errors import InputError
from dpexplain.maths.posterior import DOMAIN_WORTH, EVEN, Prior, expected, rows_for
from dpexplain.maths.tails import pooled_halfwidth
from dpexplain.maths.trees import Joint, likely_shares, worth
from dpexplain.methods.histogram import Histogram, released_by
from dpexplain.methods.setting import LEVEL
from dpexplain.models import Model, ModelPair, Predictor, predictor_of

if TYPE_CHECKING:
    from dpexplain.data.table import PrivateTable
    from dpexplain.methods.stand_in.result import StandIn
    from dpexplain.receipts import Receipt

Floats = NDArray[np.float64]
Ask = Callable[[Predictor, "Source", int], Prior]  # the model, where synthetic rows come from, and how many of them

SEED = 0  # of the public draws of synthetic rows
# Chosen by `python -m bench posterior`, by the number of curves alone:
SEVERAL = 4  # curves from which on a prior of their own histograms helps accumulated effects
SHARES = {"partial-dependence": Fraction(1, 4), "accumulated-effects": Fraction(1)}  # of a price, for a stand-in
OF_THE_REQUEST = tuple(SHARES)  # whose priors depend on no number that is released with what they are about
DOMAIN, HISTOGRAMS, STAND_IN = "domain", "histograms", "stand-in"
TOLERANCE = 1e-4  # of the largest number in a prior, by which another machine may say something else


@dataclass(frozen=True, eq=False)
class Source:
    """Where synthetic rows come from: a distribution, what it was made of, and how many rows it can be worth."""

    joint: Joint
    most: float
    origin: JsonObject  # as files and the ledger name it

    def draw(self, rows: int) -> Rows:
        """Synthetic rows, some values of which are drawn evenly from the domain. Always the same ones."""
        return Rows(self.joint.domain, self.joint.draw(rows, SEED, even=EVEN), rows)


@dataclass(frozen=True)
class Sharpening:
    """The prior of the numbers of one release (or of one of its curves, `part`), and where it came from."""

    prior: Prior
    origin: JsonObject
    part: int | None = None

    def to_json(self) -> JsonObject:
        return {"prior": self.prior.numbers(), "origin": self.origin, "part": self.part}

    @classmethod
    def from_json(cls, value: JsonObject | None) -> Sharpening | None:
        if value is None:
            return None
        origin, part = value["origin"], value["part"]
        named = isinstance(origin, dict) and set(origin) == ORIGINS.get(str(origin.get("from")), set())
        if named and origin["from"] == STAND_IN:
            for one in (origin, *origin["builds_on"]):
                Cost.from_json(one["cost"])
                named = named and type(one["entry"]) is int
        if not named or not isinstance(part, int | None) or isinstance(part, bool) or set(value) != FIELDS:
            raise ValueError("no prior of ours")
        return cls(Prior.of_numbers(value["prior"]), origin, part)

    @property
    def paid_before(self) -> list[JsonObject]:
        """The release of the stand-in that was handed over, and those that it was made of."""
        if self.origin["from"] != STAND_IN:
            return []
        return [{name: self.origin[name] for name in ("entry", "payload", "cost")}, *self.origin["builds_on"]]

    def known_as(self, receipt: Receipt) -> str:
        """What the ledger knows the prior by."""
        return known_as(receipt, self.origin, self.prior.rows, self.part)

    def sentence(self, receipt: Receipt) -> str:
        """Where the synthetic rows came from, in words."""
        if self.origin["from"] == STAND_IN:
            cost = receipt.budget.describe(Cost.from_json(self.origin["cost"]))
            return f"synthetic rows of the stand-in in entry {self.origin['entry']} ({cost})"
        if self.origin["from"] == HISTOGRAMS:
            return "synthetic rows drawn from released histograms"
        return "synthetic rows drawn evenly from the declared domain"


FIELDS = {"prior", "origin", "part"}
HANDED_OVER = {"from", "entry", "payload", "cost", "builds_on"}
ORIGINS = {DOMAIN: {"from"}, HISTOGRAMS: {"from", "payload"}, STAND_IN: HANDED_OVER}


def entries_of(receipt: Receipt) -> list[JsonObject]:
    """What a promise says about an earlier release, and about those that it was computed from."""
    entry = receipt.entry
    own = {"entry": entry.sequence, "payload": entry.payload_hash, "cost": entry.charged.to_json()}
    return [own, *receipt.request.get("builds_on", [])]


def known_as(receipt: Receipt, origin: JsonObject, rows: int, part: int | None) -> str:
    """The digest of all that decides a prior: the question, the model, the stand-in and the number of its rows."""
    request = receipt.request
    asked = {"model": request["model"], "table": request["table"]["domain"], "spec": request["spec"]}
    if request["explainer"] not in OF_THE_REQUEST:
        asked["released"] = receipt.entry.payload_hash
    return digest({"prior of": asked, "origin": origin, "rows": rows, "even": str(EVEN), "seed": SEED, "part": part})


def stand_in_share(method: str, curves: int) -> Fraction:
    """The share of a cost for so many curves that is best spent on a stand-in; with all of it, curves are read off.

    A rule of thumb from public things, found by `python -m bench posterior`.
    """
    return SHARES[method] if curves >= SEVERAL else Fraction(0)


def advice(method: str, curves: int) -> str:
    """What a plan says about a stand-in."""
    share = stand_in_share(method, curves)
    if share == 1:
        return (
            " As a rule a stand-in for the whole epsilon is closer, read by "
            "dpx.posterior(stand_in, model).accumulated_effects(...); it has no proven interval."
        )
    if share:
        return f" As a rule curves are closer with a stand-in for {share} of the cost: dpx.stand_in, then stand_in=."
    return ""


def source_of(
    domain: Domain,
    names: Sequence[str],
    histograms: Mapping[str, Histogram],
    rows: float,
    payload: str,
    stand_in: StandIn | None,
) -> Source:
    """The best stand-in that is free: one that is handed over, else these histograms, else the domain.

    names    the columns that rows need; those without a histogram are drawn from the domain
    rows     about how many rows the histograms count
    payload  the digest of what these histograms were released in
    """
    if stand_in is not None:
        own, *before = entries_of(stand_in.receipt)
        origin = {"from": STAND_IN, **own, "builds_on": before}
        return Source(stand_in.joint, max(stand_in.worth, DOMAIN_WORTH), origin)
    even = Joint.even(domain, names)
    mine = {name: histograms[name] for name in names if name in histograms}
    if len(mine) < 2:  # a curve sets its own feature to other values anyway
        return Source(even, DOMAIN_WORTH, {"from": DOMAIN})
    known = {name: (h.partition, likely_shares(h.counts, h.std, h.partition)) for name, h in mine.items()}
    cells = {p.feature: (p, shares) for p, shares in zip(even.partitions, even.shares, strict=True)} | known
    joint = Joint.product(domain, [cells[name][0] for name in names], [cells[name][1] for name in names])
    noise = worth([shares for _, shares in known.values()], [h.std for h in mine.values()], rows)
    most = max(noise, DOMAIN_WORTH) if len(mine) == len(names) else DOMAIN_WORTH
    return Source(joint, most, {"from": HISTOGRAMS, "payload": payload})


def learn(
    table: PrivateTable, model: Model | ModelPair, receipt: Receipt, source: Source, ask: Ask, part: int | None = None
) -> Sharpening:
    """The prior of what was released, by asking the model about synthetic rows; what was kept before, if there is one.

    That the model is still what its version promises is for `PrivateTable.predictor` to see.
    """
    rows = rows_for(table.rows_hint)
    mine = ask(
        predictor_of(table, model).resized(rows), source, rows
    ).numbers()  # blocks of any size: the rows are public
    kept = table.door.account.declare(known_as(receipt, source.origin, rows, part), mine)
    return Sharpening(Prior.of_numbers(kept), source.origin, part)


def expected_gain(prior: Prior, std: float, worth: float, width: float) -> float:
    """The error (that 95 % are within) of sharpened values over that of released ones, where the noise of each has this
    standard deviation and values lie in a range of this width, if synthetic rows are worth so many rows.
    """
    std = max(std, 1e-300)
    stds = expected(prior, np.full(prior.size, std**2), worth, width=width).stds
    return pooled_halfwidth(stds / std, LEVEL) / pooled_halfwidth(np.ones(1), LEVEL)


def agrees(one: Prior, two: Prior) -> bool:
    """Whether two priors differ by no more than another machine's last digits."""
    if one.means.shape != two.means.shape or one.rows != two.rows:
        return False
    pairs: list[tuple[Any, Any]] = [(one.means, two.means), (one.covariance(), two.covariance()), (one.most, two.most)]
    return all(np.allclose(a, b, rtol=0, atol=TOLERANCE * max(float(np.abs(a).max()), 1e-300)) for a, b in pairs)


def known_stand_in(table: PrivateTable, found: Any, names: Sequence[str]) -> StandIn:
    """A stand-in that was released before, if this table's account has released exactly this one, with these names."""
    from dpexplain.methods.stand_in.result import StandIn

    if not isinstance(found, StandIn):
        raise InputError("stand_in must be a result of dpx.stand_in.", hint="dpx.stand_in(table, epsilon=...)")
    if found.receipt.request["table"] != table.identity:
        raise InputError("this stand-in was released from another table, or from another version of it.")
    if not all(released_by(table, result) for result in (found, *found.relies_on)):
        raise InputError(
            "the account of this table has not released this stand-in.",
            hint="release one from it: dpx.stand_in(table, epsilon=...)",
        )
    lacking = [name for name in dict.fromkeys(names) if name not in found.features]
    if lacking:
        raise InputError(
            f"the stand-in lacks {', '.join(map(repr, lacking))}, which the model or the request needs."[:400],
            hint="dpx.stand_in(table, epsilon=...) takes all declared columns",
        )
    return found
