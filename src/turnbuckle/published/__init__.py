"""Papers recomputed: their own tables, number by number, and their methods on a user's own profile beside ours."""

from .row_slack import Beside, Bounds, beside, binned, published_surface
from .slack_proxy import Proxy, modelled
from .slack_surface import Surface, modelled_surface, read_surface

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
