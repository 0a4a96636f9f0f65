"""``turnbuckle model``: the papers' models on numbers, tables and recordings of your own."""

from __future__ import annotations

from cyclopts import App

models_app = App(name="model", help="The papers' models, one by one, on numbers, tables and recordings of your own.")
