"""`dpexplain demo`: a model of doctor visits, explained privately, from the table to the page.

    experiment.py  the table, what is declared about it, the model, the project file
    steps.py       forecast, release, verify, write: what `run` does and says
    page.py        the page, and what it makes of the results

The folder that the demo writes is an ordinary project: `dpexplain pdp` goes on in it, and so do `ale`, `importance`,
`interactions`, `sketch`, `local`, `clusters`, `influence` and `transparency`.
"""

from dpexplain.demo.experiment import BUDGET, COLUMNS
from dpexplain.demo.steps import EFFECTS, PAIR, PEOPLE, PRICES, run

__all__ = ["BUDGET", "COLUMNS", "EFFECTS", "PAIR", "PEOPLE", "PRICES", "run"]
