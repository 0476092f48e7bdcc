"""Accidents that give the same people a second budget, noticed when a ledger or an account is made.

Nobody is kept from doing it on purpose, and no guarantee of an account rests on it: the ledger, which is trusted, asks
here. An account of an earlier version opens as before, whatever its name and source.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

from dpexplain.errors import BudgetWarning, InputError, warn

if TYPE_CHECKING:
    from dpexplain.ledger.events import AccountOpened, SourceDeclared

_UNSEEN = {
    *map(chr, range(0xFE00, 0xFE10)),
    *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00016fe4",
}
_relative: dict[str, Path] = {}  # where relative paths led in this process
_in_memory: dict[str, ReferenceType[Any]] = {}  # names and columns of accounts, and their in-memory ledger


def check_relative(database: str, path: Path) -> None:
    """Refuse a relative path that meant another file earlier in this process."""
    before = _relative.get(str(Path(database)), path)
    if before != path:
        raise InputError(
            f'the relative path "{database}" of the ledger meant {before} before, and means {path} in this folder: '
            "budgets spent in one do not count in the other.",
            hint="write the absolute path of the one you mean",
        )


def note_relative(database: str, path: Path, *, new: bool) -> None:
    """Remember where a relative path led, and warn if a new ledger was made there."""
    if Path(database).is_absolute():
        return
    _relative[str(Path(database))] = path
    if new:
        warn(
            BudgetWarning,
            f"a new ledger was made at {path}. Budgets spent in a ledger elsewhere do not count here. "
            "If you meant to go on in an earlier one, or to keep this one, write its absolute path.",
        )


def warn_of_memory(account: str, source: SourceDeclared | None, database: Any) -> None:
    known = {_form(account), "" if source is None else source.columns} - {""}
    if any(_in_memory[one]() is not database for one in known & set(_in_memory)):
        warn(
            BudgetWarning,
            f'account "{account}", or one with the same columns, was opened before in another in-memory ledger of this '
            "program, and what was spent there is not counted here. Hand one "
            'dpx.open_ledger("sqlite:///:memory:") to both tables, or use a file.',
        )
    _in_memory.update(dict.fromkeys(known, ref(database)))


def check_form(what: str, name: str | None, known: Iterable[str | None]) -> None:
    """Refuse a new name that people would take for a known one."""
    names = {other for other in known if other is not None}
    if name is None or name in names:
        return
    for other in sorted(names):
        if _form(other) == _form(name):
            raise InputError(
                f'the {what} "{name}" differs from "{other}" only in blanks, case or the form of its characters.',
                hint=f'write "{other}", or a name that nobody takes for it',
            )


def check_people(people: str, overlapping: bool, known: Iterable[str]) -> None:
    """Refuse a fresh budget for people who have had one, unless it is said that they may be in both accounts."""
    if not overlapping and _form(people) in map(_form, known):
        raise InputError(
            f'"{people}" had a budget in this line of accounts: the same people get no fresh one.',
            hint="name the new people; if somebody may be in both accounts, the renewal has to say overlapping",
        )


def check_source(
    account: str, new: SourceDeclared, declared: Sequence[tuple[str, SourceDeclared]], opened: AccountOpened | None
) -> None:
    """Refuse an account over the files of another; warn of a new one over the same columns. What either account once
    said about the other counts. Accounts before it in its line have the same columns as a rule, and the same files only
    where their people may be the same.
    """
    line, overlapping = (opened.predecessors, opened.overlapping) if opened is not None else ((), False)
    known = any(name == account for name, _ in declared)
    first = opened is None or (bool(line) and not known)
    if not (first or known):  # opened by an earlier version, without sources
        return
    said = {(name, other) for name, event in [*declared, (account, new)] for other in event.separate_from}
    apart = {account, *(one for pair in said if account in pair for one in pair)}
    others = [(name, event) for name, event in declared if name not in apart]
    same = [
        name for name, event in others if set(new.origin) & set(event.origin) and not (overlapping and name in line)
    ]
    alike = sorted({name for name, event in others if first and event.columns == new.columns} - set(line))
    advice = (
        'For the same people, use the name of that account, with another version if the data are newer. If "{0}" holds '
        'other people\'s data, say so: separate_from=["{0}"] (in a project file under [table])'
    )
    if same and same[0] in line:
        raise InputError(
            f'account "{account}" was opened for other people, but these are the files of account "{same[0]}".',
            hint=f"give the files of the new people; if they have the old path by now, say so: "
            f'separate_from=["{same[0]}"] (in a project file under [table])',
        )
    if same:
        raise InputError(
            f'account "{account}" would be a second budget for the files of account "{same[0]}".',
            hint=advice.format(same[0]),
        )
    if alike:
        names = ", ".join(f'"{name}"' for name in alike)
        warn(
            BudgetWarning,
            f'the new account "{account}" has the same columns as {names} of this ledger. If they hold the same '
            f"people, both budgets are spent on them. {advice.format(alike[0])}.",
        )


def _form(name: str) -> str:
    """A name without what people do not see: blanks, case, forms of characters, selectors of their variants."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(c for c in plain if not (c.isspace() or c in _UNSEEN or "\U000e0100" <= c <= "\U000e01ef"))
