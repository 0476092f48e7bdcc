"""Influence of inputs: error against the paper's mechanism, the experiments of paper 003, Shapley values of a person.

    accuracy        error of average influences by epsilon, ours and the paper's mechanism (the targets)
    models          five classifiers: average influence and disparity of women; with and without sex (Table II); times
    discrimination  artificial discrimination by ZIP code (Fig. 3a)
    person          a transparency report: high capital gain and yet decided against (Fig. 4)
    individuals     one price for many persons: free after marginals, or 1/n noise for each value
    tables          groups, disparity by race, table-level Shapley and Banzhaf values: error, ours and the paper's
    shapley         model evaluations for the same Monte Carlo error, beside `shap`

Noise is the product's own, from the operating system; models, rows and draws without noise are seeded.
"""

from __future__ import annotations

from argparse import Namespace
from functools import cached_property

from threadpoolctl import threadpool_limits

from bench import (
    influence_accuracy,
    influence_figures,
    influence_individuals,
    influence_shapley,
    influence_studies,
    influence_tables,
    report,
)
from bench.influence_memory import Memory
from bench.influence_models import Classifier, People, fitted, people

PARTS = ("accuracy", "models", "discrimination", "person", "shapley", "tables", "individuals")
QUICK_ROWS = 2_000


class Work:
    """What the parts share, made when it is first needed."""

    def __init__(self, options: Namespace) -> None:
        self.options = options

    @cached_property
    def people(self) -> People:
        found = people(self.options.data)
        size = QUICK_ROWS if self.options.quick else found.size
        return People(found.frame[:size], found.rich[:size], found.domain)

    @cached_property
    def forest(self) -> Classifier:
        return fitted(self.people, "random forest")

    @cached_property
    def memory(self) -> Memory:
        return Memory(self.people, self.forest)

    def accuracy(self) -> None:
        cells = influence_accuracy.study(self.options, self.memory)
        content = {
            "summary": influence_accuracy.summary(cells),
            "rows": self.people.size,
            "cells": influence_accuracy.compact(cells),
        }
        report.write("influence", self.options, content, influence_figures.accuracy(cells))

    def models(self) -> None:
        five = influence_studies.five(self.options, self.people)
        sex = influence_studies.table_2(self.options, self.people)
        summary = {
            "against the paper": {kind: line["against the paper"] for kind, line in five.items()},
            "with (A) and without (B) sex": sex,
            "seconds": {kind: line["seconds"] for kind, line in five.items()},
        }
        content = {"summary": summary, "rows": self.people.size, "classifiers": five}
        report.write("influence-models", self.options, content, influence_figures.models(five))

    def discrimination(self) -> None:
        content = influence_studies.discrimination(self.options, self.memory)
        figure = influence_figures.discrimination(content)
        report.write(
            "influence-discrimination", self.options, {"summary": content["straight lines"], **content}, figure
        )

    def person(self) -> None:
        row, facts = influence_studies.chosen_person(self.options.data, self.forest)
        content, found = influence_studies.person(self.options, self.people, self.forest, row)
        figure = influence_figures.person(found, content)
        report.write("influence-person", self.options, {"summary": {**facts, **content}}, figure)

    def shapley(self) -> None:
        row, _ = influence_studies.chosen_person(self.options.data, self.forest)
        content = influence_shapley.study(self.options, self.people, self.forest, row)
        summary = influence_shapley.summary(content)
        figure = influence_figures.shapley(content)
        report.write("influence-shapley", self.options, {"summary": summary, **content}, figure)

    def individuals(self) -> None:
        content = influence_individuals.study(self.options, self.people, self.forest)
        report.write("influence-individuals", self.options, {"summary": content})

    def tables(self) -> None:
        content = influence_tables.study(self.options)
        picture = influence_tables.picture(content)
        report.write("influence-tables", self.options, {"summary": content, **content}, picture)


@threadpool_limits.wrap(limits=1)
def run(options: Namespace) -> None:
    wanted = PARTS if options.part == "all" else (options.part,)
    if not set(wanted) <= set(PARTS):
        raise SystemExit(f"influence has the parts {', '.join(PARTS)}")
    work = Work(options)
    for part in wanted:
        getattr(work, part)()
