"""The console: pages of the service for people. Server-rendered, one style, two small scripts, nothing from outside.

    sessions.py   a token becomes a cookie that ends; what a form must bring along
    pages.py      filling templates, refusals as pages, headers
    forms.py      forms from the schemas of requests, and values back from them
    drawn.py      charts, drawn once
    read.py       tables, releases, side by side, a person's own report
    ask.py        plan, ask, sets of questions, jobs, a typed-in person
    curator.py    analysts, limits, models, approvals, domains
    auditor.py    the chain and a published result, checked
    warm.py       every page made once, before anybody waits for it

Each page calls the same functions as /v1: nothing is decided a second time here.
"""
