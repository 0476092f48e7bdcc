"""Pictures of the site are fetched when somebody gets to them: a gallery has many."""

from __future__ import annotations

import re
from typing import Any

EAGER = re.compile(r"<img (?![^>]*\bloading=)")


def on_page_content(html: str, **_about: Any) -> str:
    return EAGER.sub('<img loading="lazy" ', html)
