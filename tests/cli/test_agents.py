"""`turnbuckle mcp`, spoken to by the protocol's own client."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

SAMPLE = (
    Path(__file__).resolve().parents[2]
    / "src"
    / "turnbuckle"
    / "examples"
    / "milc-like-synthetic.sqlite"
)
#: Tools and arguments, in the order of the answers.
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("doctor", {"recording": str(SAMPLE)}),
    ("project", {"recording": str(SAMPLE), "on": ["gh200", "cdi-row-link"], "part": "steady"}),
    ("project", {"recording": str(SAMPLE), "on": ["gh201"]}),
    ("inspect", {"recording": "--output=written"}),
)


async def _spoken(place: Path) -> tuple[list[Any], list[Any]]:
    # heavy, and every worker collects every test
    from mcp import (
        ClientSession,
        StdioServerParameters,
    )
    from mcp.client.stdio import stdio_client  # the same

    started = StdioServerParameters(
        command=sys.executable, args=["-m", "turnbuckle", "mcp"], cwd=place
    )
    async with stdio_client(started) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        return tools, [await session.call_tool(name, given) for name, given in CALLS]


def test_an_agent_gets_the_answers_of_the_command_line(tmp_path: Path) -> None:
    tools, (fit, projected, unknown, option) = asyncio.run(_spoken(tmp_path))
    assert {tool.name for tool in tools} == {
        "doctor",
        "inspect",
        "project",
        "slack",
        "whatif",
        "machines",
    }
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
    assert {check["state"] for check in json.loads(fit.content[0].text)["checks"]} <= {
        "ok",
        "look",
        "bad",
    }
    answer = json.loads(projected.content[0].text)
    assert [p["target"] for p in answer["projections"]] == ["gh200", "cdi-row-link"] and answer[
        "provenance"
    ]["command"]
    # an error has its code and its fix; a word that looks like an option is the name of a file
    assert (
        unknown.is_error
        and "error[M001]" in unknown.content[0].text
        and "did you mean gh200" in unknown.content[0].text
    )
    assert option.is_error and "error[P" in option.content[0].text
    assert list(tmp_path.iterdir()) == [], "nothing is written"
