"""One self-contained HTML file that says what a run would do elsewhere, and why; `write` makes it."""

from __future__ import annotations

from turnbuckle.page.html import write

__all__ = ["write"]
