"""One folder for each method, and one registration in it: everything else asks `registry`.

registry    which methods there are                 request   what a caller decides, declared once
setting     all that is public about a release      <name>/   request.py, spec.py, release.py, result.py
"""
