"""A project: what its file declares, and the way from there to a published explanation. Prints nothing.

file.py      dpexplain.toml: table, domain, budget, model, clustering
accounts.py  which kind of account suits what is wanted
renewal.py   when an account may be renewed, and for whom
run.py       open -> forecast -> release -> publish, for the command line and for a service
"""
