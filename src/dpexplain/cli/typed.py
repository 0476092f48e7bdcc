"""What people type in another way than a request declares it: columns, records, groups, files.

The registration of a method names the functions that it needs; their keywords are options of its command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpexplain.cli.options import All, Features, Pairs, Row, Rows, once, option
from dpexplain.errors import InputError
from dpexplain.methods.registry import Method, keyword_of, methods
from dpexplain.project.run import Wanted

if TYPE_CHECKING:
    from dpexplain.core.domain import Domain

MAX_ROWS = 10_000_000  # synthetic ones in a file


@dataclass(frozen=True)
class Place:
    """What a request is typed for."""

    domain: Domain
    target: str | None  # the column that the model predicts, where the project says so
    subject: Any = None  # the model or clustering that is explained, where there is one
    planned: bool = False  # a plan needs nobody to be named

    @property
    def features(self) -> list[str]:
        """The columns of the model; without one, all but its target."""
        if callable(getattr(self.subject, "features", None)):
            return list(self.subject.features(self.domain))
        return [name for name in self.domain if name != self.target]


# Columns --------------------------------------------------------------------------------------------------------------


def curves(place: Place, *, feature: Features = None, pair: Pairs = None, everything: All = False) -> dict[str, Any]:
    """Columns by name, all of them, or in pairs: for curves and surfaces."""
    pairs = [pair_of(names, "--pair") for names in pair or []]
    views: list[Any] = [*_columns(place, feature, everything), *pairs]
    if not views:
        raise InputError("name what to explain.", hint="--feature age, or --pair age,sex")
    for name in once(name for two in pairs for name in two):
        place.domain.column(name)
    return {"feature": views}


def columns(place: Place, *, feature: Features = None, everything: All = False) -> dict[str, Any]:
    """Columns by name, or all of them."""
    names = _columns(place, feature, everything)
    if not names:
        raise InputError("name what to explain.", hint="--feature age, or --all")
    return {"feature": names}


def _columns(place: Place, feature: Sequence[str] | None, everything: bool) -> list[str]:
    """The columns asked for, each once; with --all, all that the model uses, without what it predicts."""
    if everything and feature:
        raise InputError("give --feature or --all, not both.")
    if everything:
        return [name for name in place.features if name != place.target]
    for name in (names := once(feature)):
        place.domain.column(name)
    return names


def pair_of(names: str, flag: str) -> tuple[str, str]:
    """Two names with a comma between them."""
    two = [name.strip() for name in names.split(",")]
    if len(two) != 2:
        raise InputError(f"{flag} takes two names; got {names!r}.", hint=f"{flag} age,sex")
    return two[0], two[1]


# Records --------------------------------------------------------------------------------------------------------------


def record(place: Place, *, row: Row = None) -> dict[str, Any]:
    """The record whose prediction is explained."""
    return {"record": record_of(place.domain, row or [], place.features)}


def from_sketch(
    paid: bool,
    project: Callable[[], Any],
    *,
    sketch: Annotated[Path | None, option("--sketch", "FILE", "A file that `dpexplain sketch` wrote.")] = None,
    stand_in: Annotated[
        Path | None,
        option("--stand-in", "FILE", "A file of `dpexplain stand-in`: its rows are asked, with the project's model."),
    ] = None,
    row: Row = None,
    rows: Rows = None,
    prediction: Annotated[
        float | None, option("--prediction", "X", "The model's own answer, to show beside it. With --sketch.")
    ] = None,
) -> list[Any] | None:
    """Explanations of records from a sketch or a stand-in, without table and ledger; None where one is paid for."""
    if (sketch is not None) + (stand_in is not None) + paid != 1:
        raise InputError(
            "give either --sketch FILE or --stand-in FILE (both free), or --epsilon.",
            hint="`dpexplain sketch` writes such a file, paid once",
        )
    if paid:
        if rows is not None or prediction is not None:
            raise InputError("--rows and --prediction belong to --sketch.", hint="--row NAME=VALUE for each column")
        return None
    if stand_in is not None:
        from dpexplain.methods.posterior import posterior

        given = _earlier("stand-in", stand_in)
        known: Any = posterior(given, project().model())
    else:
        from dpexplain.methods.local_sketch.result import LocalSketch, sketch_from
        from dpexplain.methods.local_sketch.rows import RowSketch

        assert sketch is not None
        known = sketch_from(sketch, None, (LocalSketch, RowSketch))
    space = known.local.rows.space if stand_in is not None else known.space
    records = records_of("record", space.domain, row, rows, space.features)
    said = None if prediction is None or rows is not None else [prediction]
    return list(known.explain_many(records, said))


def persons(place: Place, *, row: Row = None, rows: Rows = None, features: Features = None) -> dict[str, Any]:
    """The persons who are reported on, and the columns."""
    names = once(features) or None
    if place.planned and row is None and rows is None:
        return {"features": names}
    from dpexplain.methods.influence.persons import read_persons

    needed = once([*place.features, *(names or [])])
    people = records_of("person", place.domain, row, rows, needed)
    read_persons(people, place.domain, needed)  # a value that nobody can have is refused before the table is opened
    return {"features": names, "row": people}


def influences(
    place: Place,
    *,
    features: Features = None,
    together: Annotated[
        list[str] | None, option("--set", "NAME,NAME", "Columns that are replaced together. May be repeated.")
    ] = None,
    group: Annotated[
        list[str] | None,
        option("--group", "NAME=VALUE", "Who: NAME=VALUE, NAME=A|B or NAME=LOW..HIGH. May be repeated."),
    ] = None,
    row: Row = None,
) -> dict[str, Any]:
    """Columns and sets of columns, and whose outcomes are asked about."""
    sets = [tuple(part.strip() for part in names.split(",")) for names in together or []]
    return {
        "features": [*once(features), *sets] or None,
        "group": group_of(place.domain, group or []) or None,
        "row": record_of(place.domain, row, place.features) if row else None,
    }


def records_of(
    what: str, domain: Domain, row: Sequence[str] | None, rows: Path | None, features: Sequence[str]
) -> list[dict[str, Any]]:
    """One record that was typed, or several in a file."""
    if (rows is None) == (not row):
        raise InputError(f"give one {what} by --row NAME=VALUE for each column, or several by --rows FILE.")
    return read_records(rows, domain, features) if rows else [record_of(domain, row or [], features)]


def record_of(domain: Domain, pairs: Sequence[str], features: Sequence[str]) -> dict[str, Any]:
    """The record that a person typed: NAME=VALUE for every feature."""
    record: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name.strip() in record:
            raise InputError(
                f"--row takes NAME=VALUE, once for each column; got {pair!r}.", hint="--row age=40", spent=""
            )
        record[name.strip()] = value_of(domain, name.strip(), value.strip())
    missing = [name for name in features if name not in record]
    if missing:
        raise InputError(
            f"the record has no value for {', '.join(missing)}.",
            hint="--row NAME=VALUE, once for each column",
            spent="",
        )
    return {name: record[name] for name in features}


def value_of(domain: Domain, name: str, value: str) -> Any:
    """A value as a person types it, in the type that is declared."""
    from dpexplain.columns import Date
    from dpexplain.core.domain import Categorical

    column = domain.column(name)
    if isinstance(column, Categorical):
        spelled = {str(category): category for category in column.categories}
        return spelled.get(value, value)
    if isinstance(column, Date):
        return value
    try:
        return float(value)
    except ValueError:
        raise InputError(f"{name}={value!r} is not a number.", spent="") from None


def read_records(path: Path, domain: Domain, features: Sequence[str]) -> list[dict[str, Any]]:
    """The records of a CSV or Parquet file of the caller's own."""
    import pandas as pd

    try:
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, dtype=str)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read: {type(error).__name__}.", hint="a CSV or Parquet file", spent=""
        ) from None
    missing = [name for name in features if name not in frame.columns]
    if missing:
        raise InputError(f"{path.name} has no column {', '.join(missing)}.", spent="")
    lines = frame[list(features)].to_dict("records")
    return [
        {
            str(name): value_of(domain, str(name), str(value)) if isinstance(value, str) else value
            for name, value in line.items()
        }
        for line in lines
    ]


def group_of(domain: Domain, conditions: Sequence[str]) -> dict[str, Any]:
    """The group that a person typed: NAME=VALUE, NAME=VALUE|VALUE, NAME=LOW..HIGH with either end left out."""
    group: dict[str, Any] = {}
    for condition in conditions:
        name, equals, value = (part.strip() for part in condition.partition("="))
        if not equals or not value or name in group:
            raise InputError(
                f"--group takes NAME=VALUE, once for each column; got {condition!r}.",
                hint="--group sex=Female, --group 'race=Black|Other' or --group age=17..30",
            )
        if name not in domain:
            group[name] = value  # refused later, with the names there are
        elif ".." in value:
            ends = value.partition("..")
            group[name] = tuple(value_of(domain, name, e.strip()) if e.strip() else None for e in (ends[0], ends[2]))
        else:
            group[name] = [value_of(domain, name, part.strip()) for part in value.split("|")]
    return group


# Scores ---------------------------------------------------------------------------------------------------------------

Score = Annotated[
    str | None,
    option("--score", "NAME", "A declared numeric column that holds the score, instead of the project's model."),
]


def model_or_score(project: Any, _domain: Any, *, score: Score = None) -> Any:
    """The project's model; nothing where a column holds the score."""
    return None if score is not None else project.model()


Groups = Annotated[
    list[str] | None,
    option("--group", "NAME[,NAME]", "A column whose values are compared, or several, crossed. May be repeated."),
]


def performances(place: Place, *, group: Groups = None) -> dict[str, Any]:
    """Groups are columns, or several with commas between them."""
    entries: list[Any] = []
    for typed in once(group):
        names = [typed] if typed in place.domain else [name.strip() for name in typed.split(",")]
        for name in names:
            place.domain.column(name)
        entries.append(names[0] if len(names) == 1 else tuple(names))
    return {"groups": entries}


# Comparisons ----------------------------------------------------------------------------------------------------------

CURVES, IMPORTANCE, RATES = "curves", "importance", "rates"


def two_models(
    project: Any,
    _domain: Any,
    *,
    with_model: Annotated[
        str | None, option("--with", "FILE", "The model to compare with: a file, or module:object to import.")
    ] = None,
    with_version: Annotated[str, option("--with-version", "V", "The version of that model.")] = "before",
) -> Any:
    """The model that is named, and the project's, which is compared with it."""
    from dpexplain.models import ModelPair

    if with_model is None:
        raise InputError("name the model to compare with.", hint="--with old-model.onnx, or --with module:object")
    return ModelPair.of([project.other_model(with_model, with_version), project.model()])


def compared(
    place: Place,
    *,
    what: Annotated[str, option("--what", "WHAT", "One of: curves, importance, rates.")] = CURVES,
    feature: Features = None,
    pair: Pairs = None,
    everything: All = False,
    group: Groups = None,
    target: Annotated[str | None, option("--target", "NAME", "The column that the models predict.")] = None,
    threshold: Annotated[float | None, option("--threshold", "X", "From which score on a decision is yes.")] = None,
) -> dict[str, Any]:
    """What is compared, with the options that it has in a command of its own."""
    from dpexplain import requests

    if what not in (CURVES, IMPORTANCE, RATES):
        raise InputError(f"unknown --what {what!r}."[:200], hint="use curves, importance or rates")
    if (group or threshold is not None) and what != RATES:
        raise InputError("--group and --threshold belong to rates.", hint="--what rates")
    if what == CURVES:
        named = curves(place, feature=feature, pair=pair, everything=everything)
        return {"request": requests.PartialDependence(**named)}
    target = target or place.target
    if target is None:
        raise InputError("name the column that the models predict.", hint="--target NAME")
    if pair or (feature and what == RATES):
        raise InputError("columns are named for curves and importances.", hint="--group names groups of rates")
    if what == IMPORTANCE:
        return {"request": requests.PermutationImportance(target=target, features=once(feature) or None)}
    groups = performances(place, group=group)["groups"]
    return {"request": requests.Performance(target=target, groups=groups, threshold=threshold)}


# Clusters -------------------------------------------------------------------------------------------------------------


def clustering(
    project: Any,
    domain: Any,
    *,
    kmeans: Annotated[int | None, option("--kmeans", "K", "Find K clusters first, by private k-means.")] = None,
    kmeans_epsilon: Annotated[float | None, option("--kmeans-epsilon", "E", "The cost of finding them.")] = None,
) -> Any:
    """The clusters come from one place: from k-means with a cost, or from the project."""
    if (kmeans is None) != (kmeans_epsilon is None):
        raise InputError("--kmeans and --kmeans-epsilon belong together.", hint="--kmeans 5 --kmeans-epsilon 1")
    if (kmeans is None) == (not project.has_clustering):
        raise InputError(
            "give either --kmeans K, or a [clustering] in the project file, not both."
            if project.has_clustering
            else "there is no clustering to explain.",
            hint='--kmeans 5 --kmeans-epsilon 1, or [clustering] import = "module:function" in the project file',
        )
    return project.clustering(domain) if kmeans is None or kmeans_epsilon is None else Wanted(kmeans, kmeans_epsilon)


def labels(place: Place) -> dict[str, Any]:
    """The names of the clusters are those of the clustering."""
    return {} if place.subject is None else {"labels": list(place.subject.labels)}


# Files ----------------------------------------------------------------------------------------------------------------


def earlier_results(method: Method, typed: Mapping[str, Any]) -> dict[str, Any]:
    """The earlier results that were typed for a method, from files that commands or `to_json` wrote."""
    paths = {name: typed.get(keyword_of(name)) for name in method.takes}
    return {keyword_of(name): _earlier(name, path) for name, path in paths.items() if path is not None}


def _earlier(name: str, path: Path) -> Any:
    """A result of this method: that of the file, or one that the file's own result was computed from."""
    from dpexplain.methods.result import from_json

    giver, written = methods()[name], from_json(path)
    kind = giver.load(giver.results[0])
    known = written if isinstance(written, kind) else getattr(written, keyword_of(name), None)
    if not isinstance(known, kind):
        raise InputError(
            f"{path} has no {name}.",
            hint=f"give a file of `dpexplain {giver.command}`, or of a command that took or bought one",
        )
    return known


# Stand-ins ------------------------------------------------------------------------------------------------------------


def model_for_scores(
    project: Any,
    _domain: Any,
    *,
    scores: Annotated[
        bool, option("--scores", None, "Also count rows by the scores of the project's model, for a part of the cost.")
    ] = False,
) -> Any:
    """The project's model, where the stand-in is to know its scores."""
    return project.model() if scores else None


def synthetic_rows(
    results: Sequence[Any],
    paths: Sequence[Path],
    *,
    rows: Annotated[
        int | None,
        typer.Option("--rows", metavar="N", min=1, max=MAX_ROWS, help="Also write N synthetic rows, as Parquet."),
    ] = None,
) -> list[Path]:
    """A Parquet file of synthetic rows beside each result; a file of anything else stays."""
    written = []
    for result, path in zip(results, paths, strict=True):
        if rows is None:
            continue
        file, number = path.with_suffix(".parquet"), 2
        while file.exists() and not result.wrote(file):
            file, number = path.with_name(f"{path.stem}-{number}.parquet"), number + 1
        written.append(result.to_parquet(file, rows))
    return written
