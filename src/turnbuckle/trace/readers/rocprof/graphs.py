"""Numbers for the nodes of HIP graphs: the profilers give all work of one launch the id of its
call, and no number to a node.
"""

from __future__ import annotations

import polars as pl

_KEYS = ["process", "correlation"]
_WORKS = ("kernels", "copies", "memsets")


def numbered(tables: dict[str, pl.DataFrame], names: pl.Series) -> int:
    """Number the nodes of graph launches in `tables`, by the order they began in; launches of the
    same kernels get the same numbers.

    Returns the number of records that got a number.
    """
    api = tables.get("api")
    if api is None:
        return 0
    launch = names.str.contains("GraphLaunch", literal=True).arg_true().cast(pl.Int32)
    calls = (
        api.filter(pl.col("name").is_in(launch.implode()) & pl.col("correlation").is_not_null())
        .select(_KEYS)
        .unique()
    )
    parts = []
    for table in (t for t in _WORKS if t in tables):
        name = pl.col("name") if table == "kernels" else pl.lit(None, pl.Int32).alias("name")
        launched = tables[table].with_row_index("row").join(calls, on=_KEYS, how="semi")
        parts.append(launched.select(*_KEYS, "start_ns", "row", pl.lit(table).alias("table"), name))
    if not parts or not calls.height:
        return 0
    nodes = pl.concat(parts).sort(*_KEYS, "start_ns", maintain_order=True)
    shapes = nodes.group_by(_KEYS, maintain_order=True).agg(
        kernels=pl.col("name").drop_nulls().sort().cast(pl.String).str.join(",")
    )
    kinds = shapes["kernels"].unique(maintain_order=True).to_frame().with_row_index("shape")
    shapes = shapes.join(kinds, on="kernels", how="left").select(
        *_KEYS, pl.col("shape").cast(pl.Int64)
    )
    nodes = nodes.join(shapes, on=_KEYS, how="left", maintain_order="left")
    index = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(_KEYS)
    nodes = nodes.with_columns(
        graph_node=pl.col("shape") * (1 << 32) + index, graph=pl.col("shape") + 1
    )
    for table in (t for t in _WORKS if t in tables):
        node_numbers = nodes.filter(pl.col("table") == table).select("row", "graph_node", "graph")
        frame = (
            tables[table]
            .drop("graph_node", "graph", strict=False)
            .with_row_index("row")
            .join(node_numbers, on="row", how="left", maintain_order="left")
        )
        tables[table] = frame.select(tables[table].columns)
    return nodes.height
