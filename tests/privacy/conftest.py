"""Puts this folder on the path, for `broken` and `fit`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
