"""Shorts and Grant 2024, SC24-W: row-scale disaggregation, and its method on a recording beside ours."""

from .binned_slack import Beside, Bounds, beside, binned, published_surface
from .proxy import Proxy, modelled
from .surface import Surface, modelled_surface, read_surface

__all__ = [
    "Beside",
    "Bounds",
    "Proxy",
    "Surface",
    "beside",
    "binned",
    "modelled",
    "modelled_surface",
    "published_surface",
    "read_surface",
]
