"""`python -m bench NAME [--quick] [--data DIR]`: run a benchmark, print it, write results/NAME.json and .png."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

NAMES = {
    "effects": "accuracy of effect curves against the published designs and our own faithful forms",
    "gallery": "the pictures of docs/gallery.md: private curves beside exact ones",
    "importance": "ranking concordance of private permutation importance",
    "generic": "rankings by interaction, SHAP dependence, and resolutions of generic plots",
    "votes": "ranking concordance of rank aggregation",
    "quantiles": "rank errors of private quantiles",
    "local": "local explanations: approximation loss, the sketch, speed, against Algorithm 1 of the paper and LIME",
    "adaptive": "a stream of explanations: budget, losses and steps of the adaptive explainer, Algorithm 1, the sketch",
    "starts": "where a path of the adaptive explainer begins: at the nearest explanation, the best of 32, or of all",
    "showcase": "faces, reviews and groups explained: Table 2, Table 3 and Figure 1 of the paper on our tables",
    "private_models": "explanations of models trained with DP-SGD: section 6.3 of the paper on our tables",
    "clusters": "explanations of clusters: quality, epsilon needed, the paper's studies, DP k-means, speed (--part)",
    "influence": "QII and Shapley values: error against the paper's mechanism, its experiments, shap (--part)",
    "audit": "attacks on our own explanations: paper 004 again, table rows against the claim, every release (--part)",
    "performance": "AUC, rates, calibration and fairness by group: error and coverage, beside MST synthetic rows",
    "posterior": "curves sharpened by a stand-in: error and coverage beside our releases before and MST rows (--part)",
    "posterior_influence": "disparity and importance sharpened by synthetic rows, beside what is released and MST rows",
    "local_posterior": "local explanations from a stand-in: the loss beside the sketch of moments and MST rows",
    "stand_in": "synthetic rows of a stand-in: errors of columns and of pairs, beside MST synthetic rows",
    "honesty": "coverage of every 95 % interval and forecasts against realised errors",
    "speed": "time of the private PDP against bare predictions and scikit-learn",
    "memory": "peak memory of a PDP and of importance in groups over a large Parquet table",
    "scale": "time and memory by rows, on one machine and on Spark, Parquet and CSV (--part)",
    "versions": "CPU time and memory of the same releases in two versions of dpexplain (--old: a checkout of one)",
    "models": "time of a private curve against bare predictions, for each kind of models; on a GPU (--part gpu)",
    "start": "CPU time of `import dpexplain`, of --help and of short commands against `import numpy, pandas`",
    "ledger": "time of a reservation in a long history against a short one, SQLite and PostgreSQL",
    "service": "local explanations over HTTP, 64 analysts at once, kills, a long time at half load, pages (--part)",
    "faults": "kill processes at random points; nothing committed is lost, nothing is under-counted",
}


def main() -> None:
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    epilog = "benchmarks: " + "; ".join(f"{name}: {what}" for name, what in NAMES.items())
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, epilog=epilog)
    parser.add_argument("name", choices=list(NAMES))
    parser.add_argument("--quick", action="store_true", help="a small form that shows that it runs; writes no results")
    parser.add_argument("--data", type=Path, default=shared, help="folder with the Parquet tables")
    parser.add_argument("--explainer", default="pdp", choices=["pdp", "ale", "generic"], help="for effects")
    clusters = ["curves", "posterior", "studies", "more", "case", "kmeans", "speed"]
    influence = ["accuracy", "models", "discrimination", "person", "tables", "individuals"]
    audit = ["records", "shapley", "words", "table", "releases"]
    posterior = ["pd", "single", "ale", "clock", "everything"]
    scale = ["rows", "cores", "spark", "wide", "csv"]
    service = ["local", "crowd", "kills", "soak", "console"]
    models = ["gpu", "cpu", "points", "server"]
    parts = ["all", *clusters, *influence, *audit, *posterior, *scale, *service, *models, "mbi"]
    parser.add_argument(
        "--part",
        default="all",
        help=f"of clusters, influence, audit, posterior, scale, ...: {', '.join(parts)}; a method of honesty",
    )
    parser.add_argument(
        "--tables", default="", help="for posterior, local_posterior: measure these, keep it, write no results"
    )
    parser.add_argument("--repetitions", type=int, help="of each cell, for local_posterior and posterior's everything")
    parser.add_argument(
        "--only", default="", help="for posterior --part everything, scale: parts of it, such as local,batch"
    )
    parser.add_argument("--kept", action="store_true", help="with it: write down what earlier runs have measured")
    parser.add_argument("--folder", type=Path, help="for scale: where its tables are written and stay")
    parser.add_argument("--baselines", action="store_true", help="with it: measure what ours is compared with, keep it")
    parser.add_argument("--old", type=Path, help="for versions: the folder of another checkout")
    options = parser.parse_args()
    if options.name == "versions" and options.old is None:
        parser.error("versions needs --old FOLDER, a checkout of the other commit: git worktree add FOLDER COMMIT")
    if options.name != "honesty" and options.part not in parts:
        parser.error(f"--part is one of {', '.join(parts)}")
    importlib.import_module(f"bench.{options.name}").run(options)


if __name__ == "__main__":
    main()
