"""The commands and their help. Each parses its options, calls one function and leaves printing to the reporter."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dpexplain.cli.report import Reporter, show_error
from dpexplain.errors import DpexplainError, InputError, InternalError

UsageError: Any = typer.BadParameter.__mro__[1]  # typer names its exceptions' parents in another place in every version
RESERVED = "If a release had begun, its price was reserved first and stays spent: `dpexplain budget` shows it."

HELP = """Explain machine-learning models with differential privacy.

Every answer has a known price, a known error and an entry in a ledger that cannot be overdrawn.

Start with `dpexplain demo`. For your own table: `init` drafts what has to be declared, `plan` tells the error before
anything is spent, `pdp`, `ale`, `importance` and `interactions` release, `sketch` pays once for explanations of any
record by `local`, `clusters` explains a clustering, `influence` and `transparency` tell what caused an outcome,
`budget` shows what is left, `verify` checks a published result, `audit` attacks your own releases.

Exit codes: 0 done, 2 bad input, 3 budget, 4 verification failed or a claim refuted, 70 internal error.
"""

app = typer.Typer(
    name="dpexplain",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text; errors too.")]
ProjectFile = Annotated[
    Path, typer.Option("--project", metavar="FILE", help="The project file: table, domain, budget, model.")
]
LedgerUrl = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        help="sqlite:///FILE or postgresql://... Default: $DPEXPLAIN_LEDGER, then the project's.",
    ),
]
Features = Annotated[
    list[str] | None, typer.Option("--feature", metavar="NAME", help="A column to explain. May be repeated.")
]
Pairs = Annotated[
    list[str] | None, typer.Option("--pair", metavar="NAME,NAME", help="Two columns for a surface. May be repeated.")
]
Epsilon = Annotated[
    str | None, typer.Option("--epsilon", metavar="E", help="The whole price, all features and rugs included.")
]
Grid = Annotated[
    int | None, typer.Option("--grid", metavar="POINTS", help="Grid points of numeric columns. Default: by forecast.")
]
Method = Annotated[str, typer.Option("--method", metavar="NAME", help="default, or paper for the published design.")]
Mechanism = Annotated[
    str | None,
    typer.Option(
        "--mechanism", metavar="NAME", help="cube, discrete-laplace or discrete-gaussian. Default: least error."
    ),
]
Rho = Annotated[str | None, typer.Option("--rho", metavar="R", help="The price in zCDP, for an account with delta.")]
Guess = Annotated[
    int | None, typer.Option("--n", metavar="ROWS", help="For the forecast where the number of rows is private.")
]
Analyst = Annotated[
    str | None, typer.Option("--analyst", metavar="NAME", help="Who asks; may have a limit of their own.")
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the page, the pictures and the receipts.")]
Target = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="NAME", help="The declared column that the model predicts. Default: the project's."
    ),
]
All = Annotated[bool, typer.Option("--all", help="Every column that the model uses, for one price.")]
NoSmooth = Annotated[bool, typer.Option("--no-smooth", help="Show the released values as they are.")]
Row = Annotated[
    list[str] | None,
    typer.Option("--row", metavar="NAME=VALUE", help="One value of the record; for each column."),
]
MarginalsFile = Annotated[
    Path | None, typer.Option("--marginals", metavar="FILE", help="A file with released marginals, to be used again.")
]
Outcome = Annotated[
    str | None,
    typer.Option("--outcome", metavar="NAME", help="class or score. Default: a class for a classifier."),
]
Threshold = Annotated[
    float | None, typer.Option("--threshold", metavar="X", help="A class: the least score of a positive outcome.")
]
DEFAULT_OUT = Path("explanations")
NoRug = Annotated[bool, typer.Option("--no-rug", help="Do not release where the rows are; the curve gets it all.")]
DEFAULT_PROJECT = Path("dpexplain.toml")


@app.callback(invoke_without_command=True, help=HELP)
def dpexplain(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from dpexplain.results.base import package_version

        print(f"dpexplain {package_version()}")
        raise typer.Exit(0)


@app.command(short_help="Explain a model on a public table, and write a page.")
def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the page, the pictures and the ledger.")
    ] = Path("demo-output"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rows and a smaller model: a few seconds.")] = False,
    json: Json = False,
) -> None:
    """Train a model on a public table, explain it privately, and write a page about it.

    The table is the RAND Health Insurance Experiment (20,190 rows, shipped with statsmodels; nothing is downloaded).
    Run again, the same explanations come from the ledger, free. The folder is a project of its own to try the other
    commands on.
    """
    from dpexplain.demo import run as run_demo

    reporter = Reporter(as_json=json)
    reporter.finish(run_demo(out, quick=quick, show=reporter.show))


@app.command(short_help="Draft what has to be declared about a table.")
def init(
    table: Annotated[Path, typer.Argument(help="A Parquet or CSV file, or a folder of Parquet files.")],
    peek: Annotated[
        bool, typer.Option("--peek", help="Also suggest bounds and categories from the rows. This reveals them.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The domain file to write.")] = Path("domain.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a domain file that is there.")] = False,
    json: Json = False,
) -> None:
    """Draft domain.yaml (and dpexplain.toml beside it) for a table.

    Reads column names and types only. What has to be declared from public knowledge is written ???, and nothing runs
    before a person has replaced it and signed the file. With --peek, suggestions from the data are filled in and
    marked; they reveal the data until a person replaces them.
    """
    from dpexplain.cli.start import init as run_init

    run_init(Reporter(as_json=json), table, peek=peek, out=out, force=force)


@app.command(short_help="Tell the error of a price, or the price of an error. Free.")
def plan(
    explainer: Annotated[
        str, typer.Option("--explainer", metavar="NAME", help="pdp, ale, importance or interactions.")
    ] = "pdp",
    feature: Features = None,
    pair: Pairs = None,
    epsilon: Epsilon = None,
    max_error: Annotated[
        str | None, typer.Option("--max-error", metavar="X", help="Instead of --epsilon: the largest error allowed.")
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", metavar="ROWS", help="About how many rows. Default: three examples.")
    ] = None,
    delta: Annotated[str, typer.Option("--delta", metavar="D", help="Of the zCDP account that is compared.")] = "1e-6",
    grid: Grid = None,
    method: Method = "default",
    mechanism: Mechanism = None,
    no_rug: NoRug = False,
    target: Target = None,
    domain: Annotated[
        Path | None, typer.Option("--domain", metavar="FILE", help="A domain file instead of the project's.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", metavar="LOW,HIGH", help="The model's range instead of the project's.")
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option("--relation", metavar="NAME", help="Instead of the project's: replace-one or add-remove."),
    ] = None,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Tell the error of a release at a price, or the price of an error. Free: no row is read, no ledger is opened.

    A pure account and a zCDP account are compared side by side, because the choice is made once: when the account is
    opened (with or without delta in the project file).

        dpexplain plan --feature age --epsilon 0.5 --n 20000

        dpexplain plan --feature age --max-error 0.01

        dpexplain plan --explainer importance --target income --epsilon 0.5
    """
    from dpexplain.cli.explain import plan as run_plan

    run_plan(
        Reporter(as_json=json),
        project,
        features=feature or [],
        pairs=pair or [],
        epsilon=epsilon,
        max_error=max_error,
        n=n,
        delta=delta,
        domain_file=domain,
        output=output,
        relation=relation,
        explainer=explainer,
        target=target,
        options={"grid": grid, "method": method, "mechanism": mechanism, "rug": not no_rug},
    )


@app.command(short_help="Release the partial dependence of columns.")
def pdp(
    feature: Features = None,
    pair: Pairs = None,
    everything: All = False,
    epsilon: Epsilon = None,
    rho: Rho = None,
    grid: Grid = None,
    method: Method = "default",
    mechanism: Mechanism = None,
    no_smooth: NoSmooth = False,
    no_rug: NoRug = False,
    n: Guess = None,
    analyst: Analyst = None,
    out: Out = DEFAULT_OUT,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Release the partial dependence of columns: how the mean prediction changes with a column's value.

    Shows the price, the expected error and what is left; then releases, and writes a page, pictures and receipts. The
    price is taken from the budget for ever. The same request again (same versions of table and model) is free.

    The model is loaded from the project's [model] path, a pickle or joblib file, or imported. Loading either runs the
    code inside: use only a model you trust.

        dpexplain pdp --feature age --feature sex --pair age,sex --epsilon 0.5
    """
    from dpexplain.cli import explain

    explain.pdp(
        Reporter(as_json=json),
        project,
        features=feature or [],
        pairs=pair or [],
        everything=everything,
        price=explain.Price(epsilon, rho, n, analyst),
        out=out,
        options={"grid": grid, "method": method, "mechanism": mechanism, "smooth": not no_smooth, "rug": not no_rug},
    )


@app.command(short_help="Release the accumulated effects of columns.")
def ale(
    feature: Features = None,
    everything: All = False,
    epsilon: Epsilon = None,
    rho: Rho = None,
    bins: Annotated[
        int | None, typer.Option("--bins", metavar="N", help="At most so many bins of a column. Default: by forecast.")
    ] = None,
    clip: Annotated[
        float | None, typer.Option("--clip", metavar="X", help="The largest effect of one row that counts in full.")
    ] = None,
    method: Method = "default",
    mechanism: Mechanism = None,
    no_smooth: NoSmooth = False,
    n: Guess = None,
    analyst: Analyst = None,
    out: Out = DEFAULT_OUT,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Release the accumulated effects of columns: how the prediction changes along a column, for the rows there.

    Unlike `pdp`, no row is moved to values that do not go with the rest of it. Several columns share two passes over
    the table. The price is taken from the budget for ever; the same request again is free.

        dpexplain ale --feature age --feature sex --epsilon 0.5
    """
    from dpexplain.cli import explain

    explain.ale(
        Reporter(as_json=json),
        project,
        features=feature or [],
        everything=everything,
        price=explain.Price(epsilon, rho, n, analyst),
        out=out,
        options={"bins": bins, "clip": clip, "method": method, "mechanism": mechanism, "smooth": not no_smooth},
    )


@app.command(short_help="Rank columns by how much the model needs them.")
def importance(
    target: Target = None,
    feature: Features = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    loss: Annotated[
        str, typer.Option("--loss", metavar="NAME", help="squared, absolute, log or accuracy.")
    ] = "squared",
    method: Method = "default",
    mechanism: Mechanism = None,
    n: Guess = None,
    analyst: Analyst = None,
    out: Out = DEFAULT_OUT,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Rank columns by permutation importance: how much worse the model predicts without what a column tells.

    All columns that the model uses, or those named with --feature, for one price, with the probability that each stands
    above the next. The target must be declared in the domain.

        dpexplain importance --target income --epsilon 0.5
    """
    from dpexplain.cli import explain

    explain.importance(
        Reporter(as_json=json),
        project,
        target=target,
        features=feature or [],
        price=explain.Price(epsilon, rho, n, analyst),
        out=out,
        options={"loss": loss, "method": method, "mechanism": mechanism},
    )


@app.command(short_help="Rank pairs of columns by how much they act together.")
def interactions(
    feature: Features = None,
    kind: Annotated[
        str, typer.Option("--kind", metavar="NAME", help="pairwise, or total: each column with all others.")
    ] = "pairwise",
    parts: Annotated[
        int | None,
        typer.Option("--parts", metavar="N", help="Into how many parts the rows are dealt. Default: by forecast."),
    ] = None,
    top: Annotated[int | None, typer.Option("--top", metavar="K", help="Only the best K, more surely.")] = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    n: Guess = None,
    analyst: Analyst = None,
    out: Out = DEFAULT_OUT,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Rank pairs of columns by Friedman's H: how much of their joint effect is not the sum of their own ones.

    The rows are dealt to parts, each part votes, and the votes are counted with noise.

        dpexplain interactions --epsilon 1 --top 5
    """
    from dpexplain.cli import explain

    explain.interactions(
        Reporter(as_json=json),
        project,
        features=feature or [],
        price=explain.Price(epsilon, rho, n, analyst),
        out=out,
        options={"kind": kind, "parts": parts, "k": top},
    )


@app.command(short_help="Pay once for local explanations of any number of records.")
def sketch(
    feature: Features = None,
    cells: Annotated[
        int | None, typer.Option("--cells", metavar="K", help="Into how many cells. Default: by forecast.")
    ] = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    n: Guess = None,
    analyst: Analyst = None,
    out: Out = DEFAULT_OUT,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Release a sketch of the model on the table, and write it to a file.

    From the file any record can be explained with `dpexplain local --sketch`, as often as you like, without the table,
    the model or the ledger, and free: the file holds released values only. The account needs a delta.

        dpexplain sketch --epsilon 1
    """
    from dpexplain.cli import local as commands
    from dpexplain.cli.explain import Price

    commands.sketch(
        Reporter(as_json=json),
        project,
        features=feature or [],
        price=Price(epsilon, rho, n, analyst),
        out=out,
        options={"cells": cells},
    )


@app.command(short_help="Explain the prediction for one record, free from a sketch.")
def local(
    sketch: Annotated[
        Path | None, typer.Option("--sketch", metavar="FILE", help="A file that `dpexplain sketch` wrote.")
    ] = None,
    row: Row = None,
    rows: Annotated[
        Path | None,
        typer.Option("--rows", metavar="FILE", help="Several records: CSV or Parquet. With --sketch."),
    ] = None,
    prediction: Annotated[
        float | None,
        typer.Option("--prediction", metavar="X", help="The model's answer for the record, if known. With --sketch."),
    ] = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="Without a sketch: auto, moments or gradient.")
    ] = "auto",
    n: Guess = None,
    analyst: Analyst = None,
    out: Out = DEFAULT_OUT,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Explain what moved the prediction for one record.

    With --sketch: free, from a file, without the table. Without: a release of its own for a price. The guarantee is
    about the rows of the table; the record that is explained is yours, and it is not protected.

        dpexplain local --sketch explanations/local-sketch.json --row age=40 --row sex=female

        dpexplain local --row age=40 --row sex=female --epsilon 0.5
    """
    from dpexplain.cli import local as commands
    from dpexplain.cli.explain import Price

    commands.local(
        Reporter(as_json=json),
        project,
        sketch=sketch,
        row=row or [],
        rows=rows,
        prediction=prediction,
        price=Price(epsilon, rho, n, analyst),
        out=out,
        options={"method": method},
    )


@app.command(short_help="Explain what tells the clusters of a table apart.")
def clusters(
    kmeans: Annotated[
        int | None, typer.Option("--kmeans", metavar="K", help="Find K clusters first, by private k-means.")
    ] = None,
    kmeans_epsilon: Annotated[
        float | None, typer.Option("--kmeans-epsilon", metavar="E", help="The price of finding them.")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option("--attribute", metavar="NAME", help="A column that may explain. May be repeated. Default: all."),
    ] = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    per_cluster: Annotated[
        int, typer.Option("--per-cluster", metavar="L", help="How many columns explain each cluster.")
    ] = 1,
    method: Annotated[str, typer.Option("--method", metavar="NAME", help="one-stage, or two-stage.")] = "one-stage",
    bounds: Annotated[str, typer.Option("--bounds", metavar="NAME", help="tight, or paper.")] = "tight",
    analyst: Analyst = None,
    out: Out = DEFAULT_OUT,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Explain clusters: the columns that tell each of them from the rest, with histograms.

    The clustering is a function named in the project's [clustering], which must come from public knowledge or from a
    private release; or --kmeans finds one, paid from the same account.

        dpexplain clusters --kmeans 5 --kmeans-epsilon 1 --epsilon 0.5
    """
    from dpexplain.cli import clusters as commands
    from dpexplain.cli.explain import Price

    commands.clusters(
        Reporter(as_json=json),
        project,
        kmeans=kmeans,
        kmeans_epsilon=kmeans_epsilon,
        attributes=attribute or [],
        price=Price(epsilon, rho, None, analyst),
        out=out,
        options={"per_cluster": per_cluster, "method": method, "bounds": bounds},
    )


@app.command(short_help="Tell which columns caused the outcomes of everybody, a group or a person.")
def influence(
    quantity: Annotated[
        str,
        typer.Option("--quantity", metavar="NAME", help="average, group, disparity, individual or actual."),
    ] = "average",
    feature: Features = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME,NAME", help="Columns that are replaced together. May be repeated."),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--given", metavar="NAME", help="A column that is replaced in any case. May be repeated."),
    ] = None,
    aggregate: Annotated[str, typer.Option("--aggregate", metavar="NAME", help="unary, shapley or banzhaf.")] = "unary",
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group", metavar="NAME=VALUE", help="Who: NAME=VALUE, NAME=A|B or NAME=LOW..HIGH. May be repeated."
        ),
    ] = None,
    row: Row = None,
    marginals: MarginalsFile = None,
    outcome: Outcome = None,
    threshold: Threshold = None,
    samples: Annotated[
        int | None,
        typer.Option("--samples", metavar="N", help="Draws for each row, or drawn orders. Default: by forecast."),
    ] = None,
    exact: Annotated[
        bool | None, typer.Option("--exact/--no-exact", help="Shapley, Banzhaf: ask about all sets of columns.")
    ] = None,
    method: Method = "default",
    mechanism: Mechanism = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    n: Guess = None,
    analyst: Analyst = None,
    out: Out = DEFAULT_OUT,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Tell which columns caused outcomes, by replacing their values with other people's: quantitative input influence.

    For everybody, for a group, for what sets a group apart, or for one person, whose influences are free with
    --marginals, a file that an earlier influence wrote.

        dpexplain influence --quantity disparity --group sex=Female --epsilon 0.5

        dpexplain influence --quantity individual --row age=40 --row sex=Female --marginals explanations/influence.json
    """
    from dpexplain.cli import influence as commands
    from dpexplain.cli.explain import Price

    commands.influence(
        Reporter(as_json=json),
        project,
        features=feature or [],
        sets=set_ or [],
        given=given or [],
        group=group or [],
        row=row or [],
        marginals=marginals,
        price=Price(epsilon, rho, n, analyst),
        out=out,
        options={
            "quantity": quantity,
            "aggregate": aggregate,
            "outcome": outcome,
            "threshold": threshold,
            "samples": samples,
            "exact": exact,
            "method": method,
            "mechanism": mechanism,
        },
    )


@app.command(short_help="Write a report for a person: what made the model decide as it did.")
def transparency(
    row: Row = None,
    rows: Annotated[
        Path | None, typer.Option("--rows", metavar="FILE", help="Several persons: CSV or Parquet, for one price.")
    ] = None,
    feature: Features = None,
    marginals: MarginalsFile = None,
    quantity: Annotated[str, typer.Option("--quantity", metavar="NAME", help="individual, or actual.")] = "individual",
    aggregate: Annotated[
        str, typer.Option("--aggregate", metavar="NAME", help="shapley, banzhaf or unary.")
    ] = "shapley",
    outcome: Outcome = None,
    threshold: Threshold = None,
    mechanism: Mechanism = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    n: Guess = None,
    analyst: Analyst = None,
    out: Out = DEFAULT_OUT,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Write a transparency report for a person, or for many for one price; persons that come later are free.

    It says what made the model decide as it did about the person, and what only goes along with such decisions. The
    guarantee is about the rows of the table; the person's own record is in the report, and it is not protected.

        dpexplain transparency --row age=40 --row sex=Female --epsilon 0.5

        dpexplain transparency --rows people.csv --epsilon 0.5
    """
    from dpexplain.cli import influence as commands
    from dpexplain.cli.explain import Price

    commands.transparency(
        Reporter(as_json=json),
        project,
        features=feature or [],
        row=row or [],
        rows=rows,
        marginals=marginals,
        price=Price(epsilon, rho, n, analyst),
        out=out,
        options={
            "quantity": quantity,
            "aggregate": aggregate,
            "outcome": outcome,
            "threshold": threshold,
            "mechanism": mechanism,
        },
    )


@app.command(short_help="Show what was spent and left; verify the ledger.")
def budget(
    account: Annotated[
        str | None, typer.Option("--account", metavar="NAME", help="One account. Default: the project's, or all.")
    ] = None,
    ledger: LedgerUrl = None,
    anchor: Annotated[
        bool, typer.Option("--anchor", help="Print the head of the chain, to be kept outside the ledger.")
    ] = False,
    check_anchor: Annotated[
        str | None, typer.Option("--check-anchor", metavar="SEQ:HASH", help="Compare with an anchor that was kept.")
    ] = None,
    limit: Annotated[
        str | None, typer.Option("--limit", metavar="ANALYST=E", help="The most this analyst may spend from now on.")
    ] = None,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Show what was spent, what is left and every entry, and verify the whole ledger.

    Every entry carries the hash of the one before. An anchor kept elsewhere also shows whether the end was cut off or
    an old backup was restored.
    """
    from dpexplain.cli.books import budget as run_budget

    run_budget(
        Reporter(as_json=json),
        project,
        account=account,
        ledger=ledger,
        anchor=anchor,
        check_anchor=check_anchor,
        limit=limit,
    )


@app.command(short_help="Check a published explanation against the ledger.")
def verify(
    receipt: Annotated[Path, typer.Argument(help="A result file that `pdp` or to_json wrote.")],
    ledger: LedgerUrl = None,
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Check a published explanation against the ledger.

    The values must follow from the released integers in the file, and the ledger must have released exactly these, for
    this request, at this price and under this guarantee. Exit code 4 if not.
    """
    from dpexplain.cli.books import verify as run_verify

    run_verify(Reporter(as_json=json), project, receipt=receipt, ledger=ledger)


@app.command(short_help="Attack your own releases. For the data holder: not private.")
def audit(
    attack: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            metavar="NAME",
            help="membership, table, reconstruction or bounds. May be repeated. Default: all.",
        ),
    ] = None,
    explainer: Annotated[
        list[str] | None,
        typer.Option(
            "--explainer",
            metavar="NAME",
            help="pdp, ale, importance, interactions, marginals, local or sketch. May be repeated. "
            "Default: pdp, ale, importance, sketch.",
        ),
    ] = None,
    epsilon: Annotated[
        list[str] | None,
        typer.Option("--epsilon", metavar="E,E", help="The prices to attack. Default: 0.1,1,5."),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials", metavar="N", help="Runs that measure each attack. Default: 1000, or as many as needed."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="Processes. Default: 2, if there are two cores.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the page, the pictures and the JSON.")
    ] = Path("audit"),
    project: ProjectFile = DEFAULT_PROJECT,
    json: Json = False,
) -> None:
    """Attack the releases of a project on its own table, and compare with what each price allows.

    For the data holder: exact rows are read WITHOUT the ledger, nothing is reserved or spent, and nothing that is
    printed or written is private. Do not publish it.

    membership asks whether a person is in the table, table which of two values a person has: both must stay below what
    the price allows. reconstruction goes from explanations to the records that they explain, which no price covers.
    bounds proves lower bounds for the same releases on made-up worst cases. Exit code 4 if a claim is refuted.

        dpexplain audit

        dpexplain audit --attack membership --explainer pdp --epsilon 0.5,1 --trials 5000
    """
    from dpexplain.cli.audit import audit as run_audit

    sound = run_audit(
        Reporter(as_json=json),
        project,
        attacks=attack or [],
        explainers=explainer or [],
        epsilons=epsilon or [],
        trials=trials,
        workers=workers,
        out=out,
    )
    if not sound:
        raise typer.Exit(4)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. No error leaves as a traceback, which could show rows."""
    arguments = list(arguments) or ["--help"]
    as_json = "--json" in arguments
    try:
        code = app(args=arguments, prog_name="dpexplain", standalone_mode=False)
        if code == 130:
            print(f"Interrupted. {RESERVED}", file=sys.stderr)
        return code if isinstance(code, int) else 0
    except DpexplainError as error:
        return show_error(error, as_json=as_json)
    except UsageError as error:
        name = getattr(getattr(error, "ctx", None), "info_name", None)
        command = f" {name}" if name and name != "dpexplain" else ""
        wrong = InputError(error.format_message(), hint=f"`dpexplain{command} --help` lists what there is")
        return show_error(wrong, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        print(f"Interrupted. {RESERVED}", file=sys.stderr)
        return 130
    except Exception as error:
        # its message and its traceback may quote a row
        unexpected = InternalError(f"internal error ({type(error).__name__}).")
        unexpected.spent = RESERVED
        return show_error(unexpected, as_json=as_json)
