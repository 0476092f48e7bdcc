"""`dpexplain demo`: a model of doctor visits, explained privately, from the table to the page.

    experiment.py  the table, what is declared about it, the model, the project file
    steps.py       plan, release, read off, verify, write: what `run` does and says
    own_table.py   the same for a table of one's own: what has to be declared is asked for
    threads.py     one thread for models and products: several are slow where other programs use the processor

The page is a report (`dpx.report`). The folder that the demo writes is an ordinary project: `dpexplain pdp` goes on in
it, and so do `ale`, `importance`, `interactions`, `sketch`, `local`, `clusters`, `influence` and `transparency`.
"""

from dpexplain.demo.experiment import BUDGET, COLUMNS
from dpexplain.demo.steps import PRICES, run

__all__ = ["BUDGET", "COLUMNS", "PRICES", "run"]
