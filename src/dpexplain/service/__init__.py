"""`dpexplain serve`: explanations over HTTP for people who may not see the data.

settings.py   [service] in the project file
store.py      the service's own tables, in SQLite or PostgreSQL: tokens, jobs, results, decisions
decisions.py  who granted what, chained, with its head in the ledger
tokens.py     roles, tokens: hashed, expiring, revocable
oidc.py       tokens of a house's own issuer, and who is what by them
tables.py     the projects that are served: each its table, models and account
asked.py      bodies of requests: what is asked, in the words of `methods/registry`
work.py       plan, release, read off: from a body to results, by the verbs of the library
jobs.py       jobs: asked once by their key, claimed, resumed, announced at public times
slots.py      the clock, and the workers that begin and announce only when it strikes
books.py      account and audit log, as they stood when the clock last struck; announced.py: the ledger until then
api.py        the application: routes, roles, errors            limits.py   sizes, rates, slow clients
curate.py     routes of the curator                            schema.py   OpenAPI from the registered requests
metrics.py    counts for Prometheus, without data              server.py   uvicorn, and what a start prints
client.py     `dpx.Client`: the verbs of the library against a server; verbs.py, remote.py and wire.py belong to it
tools.py      the analyst's verbs as tools for assistants (MCP)

Nothing here computes a statistic or adds noise: the door and the ledger decide, and a job is one call of the library.
"""
