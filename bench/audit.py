"""Attacks on our own explanations: its parts, each with its file and its picture.

records   paper 004 again: from an explanation to the explained record, on Adult and IMDB (outside the guarantee);
          with shapley, its section 2.2: from a person's Shapley values to the person, which can be run alone
words     highlighted words of a review by each method, and their agreement with LIME
table     membership and the hidden value of a table row, for seven releases, against what the claim allows
releases  a lower bound for every release on worst-case neighbours, and the same with a planted defect
"""

from __future__ import annotations

from argparse import Namespace

from threadpoolctl import threadpool_limits

from bench import audit_figures, audit_influence, audit_records, audit_releases, audit_reviews, audit_table, report
from dpexplain.audit import NOT_PRIVATE
from dpexplain.audit.releases import NOTE


def table(options: Namespace) -> None:
    lines, reports = audit_table.study(options)
    content = {"summary": audit_table.summary(lines), "note": NOTE, "attacks": lines}
    report.write("audit-table", options, content, audit_figures.table(lines, reports))


def releases(options: Namespace) -> None:
    prices = audit_releases.prices(options)
    frame = audit_releases.study(options)
    content = {
        "summary": {**audit_releases.summary(frame), "prices": prices},
        "note": frame.attrs["note"],
        "cases": audit_releases.lists(frame),
    }
    report.write("audit-releases", options, content, audit_figures.releases(frame, prices))


def words(options: Namespace) -> None:
    found = audit_reviews.words(options)
    report.write("audit-words", options, {"note": NOT_PRIVATE, **found.content}, audit_figures.words(found))


def shapley(options: Namespace) -> None:
    found = audit_influence.persons(options)
    report.write("audit-shapley", options, {"summary": audit_influence.summary(found), "note": NOT_PRIVATE, **found})


def records(options: Namespace) -> None:
    shapley(options)
    content, curves = {}, {}
    for make in (audit_records.adult, audit_reviews.imdb):
        study = make(options)
        content[study.name], curves[study.name] = study.measured()
    summary = {name: audit_records.summary(found) for name, found in content.items()}
    picture = audit_figures.records(content)
    report.write("audit", options, {"summary": summary, "note": NOT_PRIVATE, **content}, picture)
    steps = {name: found["loss by step"] for name, found in curves.items()}
    last = {name: {epsilon: losses[-1] for epsilon, losses in found.items()} for name, found in steps.items()}
    picture = audit_figures.paper(content, curves)
    report.write("audit-paper", options, {"summary": {"loss at the last step": last}, **curves}, picture)


PARTS = {"table": table, "words": words, "records": records, "shapley": shapley, "releases": releases}


@threadpool_limits.wrap(limits=1)
def run(options: Namespace) -> None:
    every = [part for part in PARTS if part != "shapley"]  # a part of records
    wanted = every if options.part == "all" else [options.part]
    if not set(wanted) <= set(PARTS):
        raise SystemExit(f"audit has the parts {', '.join(PARTS)}")
    for part in wanted:
        PARTS[part](options)
