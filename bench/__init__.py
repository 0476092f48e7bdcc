"""Benchmarks of dpexplain: `python -m bench NAME [--quick] [--data DIR]`. They belong to the repo, not to the wheel."""
