"""`python -m dpexplain.cli`: the same command."""

from dpexplain.cli import main

main()
