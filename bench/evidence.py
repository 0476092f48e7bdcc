"""Are the claims still true? `python -m bench.evidence` (`make evidence`): bench/claims.toml against what was measured.

Each claim names the committed file that it rests on. Its numbers are read from there, must be what its words say and
within its limits. Then the short form of the benchmarks runs, for claims that have one, and must not contradict them.
Any claim that does not hold is printed, and the exit code is 1. Short forms need Parquet tables in --data; those whose
tables are missing are left out, and named.

    --committed   read the committed files alone (seconds); a test does that in `make test`
    --write       write docs/evidence.md anew
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.report import RESULTS

ROOT = Path(__file__).resolve().parents[1]
CLAIMS = ROOT / "bench" / "claims.toml"
PAGE = ROOT / "docs" / "evidence.md"
HEAD = """\
# Evidence

What is claimed, against what, and how to measure it again. This page is made from
[`bench/claims.toml`](../bench/claims.toml) and the files in [`bench/results/`](../bench/results), which hold machine,
versions and seeds (`python -m bench.evidence --write`; a test compares them). `make evidence` reads every number again,
runs the short form of the benchmarks, and fails if a claim no longer holds. Ratios over many cells are geometric means.

A number that was measured with an earlier version says so by its date. {short} of {all} claims have a short form that
runs in `make evidence`; for the others it reads the committed file, and the command repeats them in full.
"""


@dataclass(frozen=True)
class Quick:
    """The short form of a benchmark, and what its summary must show."""

    run: str
    checks: Sequence[Mapping[str, Any]]
    tables: Sequence[str] = ()


@dataclass(frozen=True)
class Claim:
    topic: str
    what: str
    against: str
    says: str
    file: str
    numbers: Sequence[Mapping[str, Any]]
    readme: bool = False
    repeat: str = ""  # the whole command, where the file names one that measured a part again
    elsewhere: Sequence[Sequence[str]] = ()  # other pages, and the words in which they say it
    quick: Quick | None = None
    document: dict[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        content = json.loads((RESULTS / self.file).read_text(encoding="utf-8"))
        object.__setattr__(self, "document", content)

    @property
    def command(self) -> str:
        return self.repeat or str(self.document["about"]["command"])

    @property
    def date(self) -> str:
        return str(self.document["about"]["at"])[:10]


def claims(path: Path = CLAIMS) -> list[Claim]:
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["claim"]
    return [Claim(**entry | ({"quick": Quick(**entry["quick"])} if "quick" in entry else {})) for entry in entries]


# Checking -------------------------------------------------------------------------------------------------------------


def number(document: Any, way: Sequence[str]) -> float:
    """The number at the end of a way into a result; "#" counts what is there."""
    for step in way:
        document = len(document) if step == "#" else document[step]
    return float(document)


def shown(value: float, text: str) -> bool:
    """Whether a number, rounded as `text` is, reads like `text`."""
    plain = text.replace(",", "")
    decimals = len(plain.partition(".")[2])
    return f"{value:.{decimals}f}" == plain or abs(value - float(plain)) <= 0.5000001 * 10.0**-decimals


def faults_of(document: Any, checks: Sequence[Mapping[str, Any]], says: str | None = None) -> list[str]:
    """What is wrong with these numbers; with `says`, also whether the words show them."""
    wrong = []
    for check in checks:
        try:
            value = number(document, check["at"])
            least = number(document, check["at_least_that"]) if "at_least_that" in check else check.get("at_least")
        except (KeyError, TypeError):
            wrong.append(f"{' / '.join(check['at'])}: not in the result")
            continue
        name = f"{' / '.join(check['at'])} is {value:.5g}"
        if "shown" in check and not shown(value, check["shown"]):
            wrong.append(f"{name}, written as {check['shown']}")
        if "shown" in check and says is not None and check["shown"] not in says:
            wrong.append(f"{check['shown']} does not stand in {says!r}")
        if "at_most" in check and value > check["at_most"]:
            wrong.append(f"{name}, above {check['at_most']}")
        if least is not None and value < least:
            wrong.append(f"{name}, below {least:.5g}")
    return wrong


def committed(claim: Claim, readme: str) -> list[str]:
    """What is wrong with a claim by the committed file, and with what the README makes of it."""
    wrong = faults_of(claim.document, claim.numbers, claim.says)
    if claim.readme and claim.says not in " ".join(readme.split()):
        wrong.append(f"the README does not say {claim.says!r}")
    for place, words in claim.elsewhere:
        if words not in " ".join((ROOT / place).read_text(encoding="utf-8").split()):
            wrong.append(f"{place} does not say {words!r}")
        if not any(check.get("shown", "\n") in words for check in claim.numbers):
            wrong.append(f"{words!r} shows no number of the claim")
    return wrong


def repeated(quick: Quick, data: Path) -> list[str] | None:
    """What is wrong with a claim by its short form; None where its tables are missing."""
    if any(not (data / name).exists() for name in quick.tables):
        return None
    command = [sys.executable, "-m", "bench", *shlex.split(quick.run), "--quick", "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        return [f"`python -m bench {quick.run} --quick` failed: {(done.stderr.strip() or 'no message')[-400:]}"]
    return faults_of(summary_in(done.stdout), quick.checks)


def summary_in(printed: str) -> Any:
    """The summary that a benchmark prints last (`report.write`), among its lines of progress."""
    return json.JSONDecoder().raw_decode(printed[printed.index("\n{\n") + 1 if "\n{\n" in printed else 0 :])[0]


# The page -------------------------------------------------------------------------------------------------------------


def page(every: Sequence[Claim]) -> str:
    parts = [HEAD.format(short=sum(claim.quick is not None for claim in every), all=len(every))]
    for topic in dict.fromkeys(claim.topic for claim in every):
        lines = ["| | against | measured | repeat | on |", "|---|---|---|---|---|"]
        for claim in (claim for claim in every if claim.topic == topic):
            file = f"[`{claim.command}`](../bench/results/{claim.file})"
            lines.append(f"| {claim.what} | {claim.against} | {claim.says} | {file} | {claim.date} |")
        parts.append("\n".join([f"## {topic}", "", *lines, ""]))
    return "\n".join(parts)


# --------------------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.evidence", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--committed", action="store_true", help="read the committed results alone")
    parser.add_argument("--write", action="store_true", help="write docs/evidence.md")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with Parquet tables")
    options = parser.parse_args(arguments)
    every = claims()
    if options.write:
        PAGE.write_text(page(every), encoding="utf-8")
        print(f"written: {PAGE.relative_to(ROOT)}")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    failed = 0
    for claim in every:
        wrong = committed(claim, readme)
        short = ""
        if claim.quick is not None and not options.committed:
            again = repeated(claim.quick, options.data.resolve())
            short = "; short form left out, its tables are missing" if again is None else "; short form repeated"
            wrong += again or []
        failed += bool(wrong)
        print(f"{'FAILS' if wrong else 'holds'}  {claim.what}: {claim.says} ({claim.file}, {claim.date}{short})")
        for line in wrong:
            print(f"       {line}")
    print(f"{len(every) - failed} of {len(every)} claims hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
