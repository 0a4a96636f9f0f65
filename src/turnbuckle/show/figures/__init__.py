"""Figures: Vega-Lite specifications, drawn to static SVG."""
