"""One self-contained HTML report of what a run would do elsewhere, and why; `write` makes it."""

from __future__ import annotations

from turnbuckle.page.html import write

__all__ = ["write"]
