"""`make pictures`: diagrams, the demo's picture and the command reference, made anew."""

from __future__ import annotations

import tempfile
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dpexplain.cli.reference import reference
from dpexplain.demo import run
from dpexplain.design import DataFlow
from dpexplain.methods.influence import persons
from dpexplain.methods.local_explanation import descent
from dpexplain.methods.registry import methods
from dpexplain.methods.result import from_json
from dpexplain.render.plots import save_png

DOCS = Path(__file__).parent
PAPER_PDP = DataFlow(
    {"a": "explanation data", "(1)": "x values", "(2)": "y values", "b": "plot"},
    [("a", "(1)"), ("a", "(2)"), ("(1)", "(2)"), ("(1)", "b"), ("(2)", "b")],
    name="PDP in the paper",
)


def main() -> None:
    diagrams = {
        f"flow-{method.home.rpartition('.')[2].replace('_', '-')}": method.load(method.diagram)()
        for method in methods().values()
    }
    diagrams |= {"flow-persons": persons.diagram(), "flow-descent": descent.diagram(), "flow-paper-pdp": PAPER_PDP}
    for name, flow in diagrams.items():
        size = max(1.0, (1 + max(flow.layer(stage) for stage in flow.stages)) / 5)
        figure = Figure(figsize=(8.5 * size, 2.6 * size), layout="constrained")
        FigureCanvasAgg(figure)
        flow.plot(figure.add_subplot())
        figure.savefig(DOCS / "pictures" / f"{name}.png", dpi=110)
    (DOCS / "commands.md").write_text(reference(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))
        for name, picture in (("chronic_diseases", "demo"), ("permutation-importance", "demo-importance")):
            save_png(from_json(Path(folder) / f"{name}.json"), DOCS / "pictures" / f"{picture}.png")


if __name__ == "__main__":
    main()
