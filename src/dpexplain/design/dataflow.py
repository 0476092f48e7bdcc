"""Data-flow diagrams, and the sets of stages at which noise makes an explainer private.

The DP enabler theorem ("Differentially Private Global Explanations", Theorem V.1): whatever the stages of a diagram
compute, replacing the stages of a set S by differentially private versions makes the output private exactly when S
separates the input from the output: every path from the table to the explanation passes a stage of S. A minimal such
set is a *privacy-enabling set*; each of them is one design.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpexplain.core.budget import Cost
from dpexplain.core.mechanisms import best
from dpexplain.core.sensitivity import Sensitivity
from dpexplain.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Option:
    """One design: the stages that get noise, and the forecast standard deviation of each at an equal share."""

    stages: frozenset[str]
    noise: dict[str, float]

    @property
    def worst(self) -> float:
        return max(self.noise.values())


class DataFlow:
    """A directed acyclic graph of named stages with one input and one output.

    stages         {stage: what it computes}; the order is the order of drawing
    edges          (from, to) pairs: what a stage reads
    sensitivities  {stage: (Sensitivity, number of values)} where they are known, for `rank`
    noised         the stages that the explainer of this diagram really noises
    """

    def __init__(
        self,
        stages: Mapping[str, str],
        edges: Iterable[tuple[str, str]],
        *,
        name: str = "",
        sensitivities: Mapping[str, tuple[Sensitivity, int]] | None = None,
        noised: Iterable[str] = (),
    ) -> None:
        self.name, self.stages = name, dict(stages)
        self.edges = list(dict.fromkeys((str(a), str(b)) for a, b in edges))
        self.sensitivities = dict(sensitivities or {})
        self.noised = frozenset(noised)
        named = {stage for edge in self.edges for stage in edge} | set(self.sensitivities) | self.noised
        if unknown := sorted(named - set(self.stages)):
            raise InputError(f"the diagram has no stage {', '.join(map(repr, unknown))}.", spent="")
        self._next = {stage: [b for a, b in self.edges if a == stage] for stage in self.stages}
        self._order = self._layers()
        self.input = self._only([s for s in self.stages if not any(b == s for _, b in self.edges)], "input")
        self.output = self._only([s for s in self.stages if not self._next[s]], "output")
        if self.input == self.output:
            raise InputError("the diagram has no path from an input to an output.", spent="")

    def privacy_enabling_sets(self) -> list[frozenset[str]]:
        """All minimal sets of stages that every path from the input to the output passes; small ones first.

        For a minimal separator S let R be what can be reached without entering S. Then S is exactly the border of R
        (the stages that R leads to), and R grows from nothing one border stage at a time. So all R are walked through,
        and a border is kept when each of its stages still leads to the output past the others.
        """
        found: set[frozenset[str]] = set()
        seen: set[frozenset[str]] = set()
        waiting: list[frozenset[str]] = [frozenset()]
        while waiting:
            region = waiting.pop()
            if region in seen:
                continue
            seen.add(region)
            border = self._border(region)
            if all(self._reaches(stage, border - {stage}) for stage in border):
                found.add(border)
            waiting += [region | {stage} for stage in border if stage != self.output]
        return sorted(found, key=lambda s: (len(s), sorted(self._order[stage] for stage in s), sorted(s)))

    def separates(self, stages: Iterable[str]) -> bool:
        """Whether every path from the input to the output passes one of these stages."""
        blocked = frozenset(stages)
        return self.input in blocked or not self._reaches(self.input, blocked)

    def rank(self, cost: Cost) -> list[Option]:
        """The sets whose stages all carry a sensitivity, the smallest worst forecast noise first.

        The cost is shared equally within a set; every stage gets the law with the smallest standard deviation.
        """
        options = []
        for stages in self.privacy_enabling_sets():
            if stages <= set(self.sensitivities):
                share = cost * Fraction(1, len(stages))
                noise = {}
                for stage in sorted(stages, key=lambda s: self._order[s]):
                    sensitivity, size = self.sensitivities[stage]
                    noise[stage] = best(sensitivity, size, share).std
                options.append(Option(stages, noise))
        return sorted(options, key=lambda option: option.worst)

    def to_dot(self) -> str:
        """The diagram as Graphviz text; noised stages are filled."""
        lines = ["digraph {", "  rankdir=LR; node [shape=box, style=rounded];"]
        for stage, text in self.stages.items():
            fill = ', style="rounded,filled", fillcolor="#9dc3e6"' if stage in self.noised else ""
            lines.append(f"  {_quoted(stage)} [label={_quoted(stage + chr(10) + text)}{fill}];")
        lines += [f"  {_quoted(a)} -> {_quoted(b)};" for a, b in self.edges]
        return "\n".join([*lines, "}", ""])

    def plot(self, ax: Axes | None = None) -> Axes:
        """The diagram as a picture, from the input on the left to the output on the right."""
        from dpexplain.render.diagrams import plot_dataflow

        return plot_dataflow(self, ax)

    def layer(self, stage: str) -> int:
        """How many stages lie before this one on the longest path."""
        return self._order[stage]

    def _border(self, region: frozenset[str]) -> frozenset[str]:
        if not region:
            return frozenset({self.input})
        return frozenset(b for a in region for b in self._next[a]) - region

    def _reaches(self, start: str, blocked: frozenset[str]) -> bool:
        """Whether the output can be reached from `start` without entering a blocked stage."""
        seen, waiting = set(), [start]
        while waiting:
            stage = waiting.pop()
            if stage == self.output:
                return True
            waiting += [b for b in self._next[stage] if b not in seen and b not in blocked]
            seen.update(self._next[stage])
        return False

    def _layers(self) -> dict[str, int]:
        """The layer of each stage; an error if there is a cycle."""
        order: dict[str, int] = {}
        before = {stage: [a for a, b in self.edges if b == stage] for stage in self.stages}
        while len(order) < len(self.stages):
            ready = [s for s in self.stages if s not in order and all(a in order for a in before[s])]
            if not ready:
                raise InputError("the diagram has a cycle.", hint="a stage must not read its own output", spent="")
            order |= {s: max((order[a] + 1 for a in before[s]), default=0) for s in ready}
        return order

    def _only(self, candidates: list[str], what: str) -> str:
        if len(candidates) != 1:
            names = ", ".join(map(repr, candidates)) or "none"
            raise InputError(f"a diagram has exactly one {what}; this one has: {names}.", spent="")
        return candidates[0]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
