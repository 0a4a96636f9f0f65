"""One self-contained HTML report of what a run would do elsewhere, and why; `html.write` makes
it.
"""
