"""Every release of the product on worst-case neighbouring tables: the exact loss of its law, and draws of its noise.

Exact       for all cases: what the captured law loses on its pair is at most the price, and comes as near to it as the
            case says. A wrong constant, a wrong share, a law that depends on rows are found without chance.
Planted     the same check with rows that count twice (`broken.counted_twice`), and with half the noise
            (`broken.half_the_noise`): every method must be caught. The list of methods is the registry's, so a method
            without worst cases, or whose worst cases show nothing, fails.
Draws       for one part of each release, relation and definition (one with few numbers, which shows its loss best; the
            same law twice is drawn once) and two choices; in the short ring for one part of each law and each kind of
            choice. Sound: confidence 1 - 1.3e-7 each, at most 76 of them, so a sound product is accused with
            probability below 1e-5. Planted: half the noise; the lower bounds lie at least 7 of their standard
            deviations above the claim (15 repetitions), so none is missed in practice.
The long form, with a defect of 20 % on every case that draws can see, is `releases.audit_all`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from broken import counted_twice, half_the_noise

from dpexplain.audit.calls import Choice, Combination, Sum
from dpexplain.audit.capture import Part, draws
from dpexplain.audit.cases import PRICES, Case
from dpexplain.audit.lower_bound import LowerBound, from_scores
from dpexplain.audit.releases import audit_all, audit_release, releases
from dpexplain.core.budget import Definition
from dpexplain.core.noise import Law
from dpexplain.errors import InputError
from dpexplain.methods import registry
from dpexplain.methods.registry import methods

pytestmark = pytest.mark.drawn(1e-6)

RELEASES = releases()
METHODS = dict(zip(RELEASES, methods().values(), strict=True))
SURE = 1 - 1.25e-7
SOUND = 1_000
PLANTED = {Law.GAUSSIAN: 2_000, Law.LAPLACE: 12_000, Law.CUBE: 6_000, Choice: 6_000, Combination: 9_000}
DRAWN = ["partial_dependence", "marginals", "rank_aggregation", "clusters"]  # in the short ring: a part of each law
CHOICES = [
    ("rank_aggregation", "best", "top", "add-remove", Definition.PURE),
    ("clusters", "one stage", "combination", "add-remove", Definition.PURE),
]


@cache
def captured(name: str) -> list[tuple[Case, list[Part]]]:
    """All cases of a release with everything that it lets out, at the usual price."""
    found, known = [], {}
    for case in RELEASES[name]():
        key = (id(case.run), case.relation, case.rows, case.definition, str(case.pair), str(case.answers))
        if key not in known:
            known[key] = case.parts(PRICES[case.definition])
        found.append((case, known[key]))
    return found


def kind(part: str) -> str:
    """Without the number of the release, of the step or of the feature."""
    return re.sub(r"(-\d+)+$", "", part.split(":")[-1])


def test_no_release_is_forgotten():
    """Every folder that releases is a registered method, and every method has worst cases."""
    folders = {path.parent.name for path in Path(registry.__file__).parent.glob("*/release.py")}
    assert len(folders) > 12
    assert folders - {"batches", "reports"} == set(RELEASES)  # releases of others: test_batches.py
    assert len(RELEASES) == len(methods())
    assert all(make() for make in RELEASES.values())


@pytest.mark.parametrize("name", RELEASES)
def test_every_part_under_every_relation_is_there(name):
    parts = {kind(part.name) for _, parts in captured(name) for part in parts}
    assert parts - {"counts"} <= {kind(case.part) for case, _ in captured(name)}
    protections = {(case.relation, case.rows > 1) for case, _ in captured(name)}
    assert {("replace-one", False), ("add-remove", False), ("replace-one", True)} <= protections
    definitions = {case.definition for case, _ in captured(name)}
    assert definitions == ({Definition.ZCDP} if METHODS[name].needs_delta else set(Definition))


@pytest.mark.parametrize("name", RELEASES)
def test_no_law_loses_more_than_its_price(name):
    for case, parts in captured(name):
        (part,) = (part for part in parts if part.name == case.part)
        assert case.least <= part.attained <= 1 + 1e-9, str(case)
        for other in parts:
            assert other.attained <= 1 + 1e-9, f"{other.name} of {case}"


@pytest.mark.parametrize("name", RELEASES)
def test_the_parts_cost_no_more_than_the_release(name):
    for case, parts in captured(name):
        price = PRICES[case.definition].amount
        numbers = {part.name.partition(":")[0] if ":" in part.name else "1" for part in parts}
        assert sum(part.cost.amount for part in parts) <= price * len(numbers), str(case)


def with_defect(name: str) -> float:
    """The exact loss of the case that shows it best, as a share of its price; without a defect at most 1."""
    case = max((case for case, _ in captured(name)), key=lambda case: case.least)
    assert case.least > 0.7
    (part,) = (part for part in case.parts(PRICES[case.definition]) if part.name == case.part)
    return part.attained


@pytest.mark.parametrize("name", RELEASES)
def test_rows_that_count_twice_are_caught(name, monkeypatch):
    """In every method, by the exact loss of one of its cases: no chance is in it. Without the defect none is caught."""
    captured(name)  # sound
    counted_twice(monkeypatch)
    assert with_defect(name) > 1.3


@pytest.mark.parametrize("name", RELEASES)
def test_half_the_noise_is_caught(name, monkeypatch):
    captured(name)  # sound
    half_the_noise(monkeypatch)
    assert with_defect(name) > 1.3


# Draws ------------------------------------------------------------------------------------------------------------


def few(part: Part) -> bool:
    """Whether half the noise shows in a few thousand draws."""
    (call,) = part.left
    moved = np.count_nonzero(part.change)
    return call.noise.law is Law.GAUSSIAN or moved <= 2 or (call.noise.law is Law.CUBE and call.noise.size <= 3)


@cache
def chosen(name: str) -> dict[str, Part]:
    """For each relation and definition the first part that shows its loss well, and the choices."""
    found, seen = {}, set()
    for case in RELEASES[name]():
        place = (case.release, case.relation, case.definition)
        choice = (case.release, case.form, case.part, *place[1:]) in CHOICES
        if case.rows > 1 or not case.drawn or (place in seen and not choice):
            continue
        part = case.captured()
        if choice or (isinstance(part.left[0], Sum) and few(part)):
            seen.add(place)
            found[str(case)] = part
    return found


@cache
def audit(name: str, case: str, defect: float) -> LowerBound:
    """Parts of one signature, also of other releases, share their draws."""
    part = chosen(name)[case]
    known = shared()
    if (part.signature, defect) not in known:
        scores = draws(part, planted_trials(part) if defect else SOUND, defect=defect)
        bound = from_scores(scores, claim=part.claim, confidence=SURE, gaussian=part.gaussian)
        known[part.signature, defect] = bound
    return known[part.signature, defect]


def planted_trials(part: Part) -> int:
    return PLANTED[law_of(part)]


@cache
def shared() -> dict[tuple, LowerBound]:
    """The bounds of every law that was drawn."""
    return {}


@pytest.mark.long
@pytest.mark.parametrize("name", RELEASES)
def test_no_lower_bound_above_the_claim(name):
    for case in chosen(name):
        bound = audit(name, case, 0.0)
        assert not bound.violates, f"{case}: {bound}"


@pytest.mark.long
@pytest.mark.parametrize("name", RELEASES)
def test_half_the_noise_is_caught_by_draws(name):
    assert chosen(name)
    for case in chosen(name):
        bound = audit(name, case, 0.5)
        assert bound.violates, f"{case}: {bound}"


def law_of(part: Part) -> Law | type:
    call = part.left[0]
    return call.noise.law if isinstance(call, Sum) else type(call)


@pytest.mark.parametrize("law", [*Law, Choice, Combination])
@pytest.mark.long
def test_draws_of_every_law_and_every_kind_of_choice(law):
    """In the short ring; the law of choices in zCDP accounts is held by test_samplers.py."""
    name, case = next((name, case) for name in DRAWN for case, part in chosen(name).items() if law_of(part) == law)
    sound, planted = (audit(name, case, defect) for defect in (0.0, 0.5))
    assert not sound.violates, f"{case}: {sound}"
    assert planted.violates, f"{case}: {planted}"


def test_few_enough_audits_for_the_stated_false_alarms():
    """At most four sums of each kind of release, and the choices."""
    kinds = {case.release for make in RELEASES.values() for case in make()}
    assert (4 * len(kinds) + len(CHOICES)) * (1 - SURE) < 1e-5


@pytest.mark.long
def test_the_long_form_on_one_case():
    """A line for each case, each with its exact loss; what draws can see has bounds, a power and a caught defect."""
    cases = [case for case in RELEASES["local_sketch"]() if case.rows == 1][:1]
    hidden = [case for case in RELEASES["clusters"]() if not case.drawn][:1]
    frame = audit_all([*cases, *cases, *hidden], trials=2_000, defect=0.5, confidence=SURE)
    assert list(frame["release"]) == ["local_sketch", "local_sketch", "clusters"]
    seen = frame.iloc[0]
    assert seen["bound"] <= seen["claim"] < seen["bound with defect"]
    assert seen["defect caught"]
    assert not seen["refuted"]
    assert seen["power"] > 0.95
    assert seen["trials"] == 2_000
    assert frame["bound"].isna().tolist() == [False, False, True]
    assert (frame["attained"] <= 1 + 1e-9).all()
    with pytest.raises(InputError, match="no draws"):
        audit_release(hidden[0])
    assert not audit_release(cases[0], trials=1_000, confidence=SURE).violates
