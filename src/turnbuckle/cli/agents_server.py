"""The server of ``turnbuckle mcp``: each failure is an error with a code, and nothing that was
started outlives the client.

A510  no tool has this name
A511  arguments that the tool does not take
A517  a message that cannot be read
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import anyio
from anyio import CancelScope
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import CallToolResult, ErrorData, TextContent
from mcp.types.jsonrpc import PARSE_ERROR, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from turnbuckle.cli import limits
from turnbuckle.cli.asked import check, live
from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of

#: Longest message of a client, and what is read of it at a time [B].
MESSAGE_BYTES: Final = 64 << 20
_BLOCK_BYTES: Final = 1 << 16
#: Time that a client has to take what was still said when it closed its end [s].
_GRACE: Final = 5.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Server(MCPServer):
    """A server whose every failure has a code, and whose questions end with it."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> Any:
        """Answer a call; what goes wrong is a result that holds the lines of an error."""
        try:
            tools = {tool.name: tool.input_schema["properties"] for tool in await self.list_tools()}
            if name not in tools:
                word = clipped(name)
                raise error_of(
                    "A510",
                    found=f"tools: {', '.join(tools)}",
                    fix=did_you_mean(word, tools) or None,
                    word=word,
                )
            if unknown := [word for word in arguments if word not in tools[name]]:
                word = clipped(unknown[0])
                raise error_of(
                    "A511",
                    where=word,
                    found=f"{name} takes {', '.join(tools[name]) or 'none'}",
                    tool=name,
                )
            check(arguments)
            return await super().call_tool(name, arguments, context)
        except MCPError:
            raise
        except Exception as error:
            return CallToolResult(
                content=[TextContent(type="text", text=_told(error, name))], is_error=True
            )

    async def run_stdio_async(self) -> None:
        """Serve one client on stdin and stdout until it closes its end, or a signal comes."""
        hear, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        say, saying = anyio.create_memory_object_stream[SessionMessage](0)
        said = anyio.Event()
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as serving:
                group.start_soon(_end_at_a_signal, serving)
                group.start_soon(_hear, hear, say.clone())
                group.start_soon(_say, saying, serving, said)
                await self._lowlevel_server.run(
                    heard, say, self._lowlevel_server.create_initialization_options()
                )
            with anyio.move_on_after(_GRACE):
                await said.wait()
            if not said.is_set():
                # the client reads no more, and a thread that writes to it cannot be interrupted
                os._exit(0)
            group.cancel_scope.cancel()


def _told(error: Exception, tool: str) -> str:
    """Return the lines of the error that ended a call."""
    cause = error.__cause__ if isinstance(error, ToolError) else error
    if isinstance(cause, ToolError) and not isinstance(cause, UnexpectedToolError):
        return str(cause)  # lines of the command's own error
    if isinstance(cause, ValidationError):
        flaws = [
            f"{'.'.join(map(str, flaw['loc']))}: {flaw['msg']}"
            for flaw in cause.errors(include_input=False)[:3]
        ]
        cause = error_of("A511", found=clipped("; ".join(flaws), 200), tool=tool)
    if not isinstance(cause, TurnbuckleError):
        met = cause or error
        cause = limits.shortage(met) or error_of(
            "I001", found=clipped(f"{type(met).__name__}: {met}", 200)
        )
    return "\n".join(cause.lines())


async def _end_at_a_signal(serving: CancelScope) -> None:
    """End what is asked, then the process: threads that read or write cannot be interrupted."""
    taken = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    with anyio.open_signal_receiver(*taken) as signals:
        async for number in signals:
            serving.cancel()
            with anyio.CancelScope(shield=True):
                while live:
                    await anyio.sleep(0.02)
            os._exit(128 + number)


async def _hear(
    hear: ObjectSendStream[SessionMessage | Exception], say: ObjectSendStream[SessionMessage]
) -> None:
    """Pass on what the client sends, and answer what is no message."""
    loop = asyncio.get_running_loop()
    put, lines = anyio.create_memory_object_stream[bytes](0)

    def read() -> None:
        with suppress(OSError, RuntimeError):  # the loop may have ended
            for line in _lines(0):
                asyncio.run_coroutine_threadsafe(put.send(line), loop).result()
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(put.close)

    # a thread of anyio would keep the process from ending while it reads
    threading.Thread(target=read, daemon=True).start()
    async with hear, say:
        async for line in lines:
            message = _message(line)
            if isinstance(message, JSONRPCError):
                await say.send(SessionMessage(message))
            else:
                await hear.send(SessionMessage(message))


def _lines(descriptor: int) -> Iterator[bytes]:
    """Yield the lines of a descriptor; of one that is too long, its beginning."""
    line = bytearray()
    while True:
        select.select([descriptor], [], [])  # some clients give a socket that does not block
        block = os.read(descriptor, _BLOCK_BYTES)
        *ends, rest = block.split(b"\n")
        for end in ends:
            yield bytes(line + end)
            line.clear()
        line += rest[: max(0, MESSAGE_BYTES - len(line))]
        if not block:
            break
    if line:
        yield bytes(line)


def _message(line: bytes) -> Any:
    """Return the message of a line, or the answer to a line that has none."""
    document: Any = None
    try:
        # half of a surrogate pair is a text to Python; which argument has it is said later
        document = json.loads(line)
        return jsonrpc_message_adapter.validate_python(document, by_name=False)
    except (ValueError, RecursionError):
        evidence = "a line that is no JSON" if document is None else "JSON that is no message"
        if len(line) >= MESSAGE_BYTES:
            evidence = f"more than {MESSAGE_BYTES} bytes in a line"
        identity = document.get("id") if isinstance(document, dict) else None
        known = isinstance(identity, int) and not isinstance(identity, bool)
        known |= isinstance(identity, str) and identity.isascii()
        told = "\n".join(error_of("A517", found=evidence).lines())
        about = ErrorData(code=PARSE_ERROR, message=told)
        return JSONRPCError(jsonrpc="2.0", id=identity if known else None, error=about)


async def _say(
    saying: ObjectReceiveStream[SessionMessage], serving: CancelScope, said: anyio.Event
) -> None:
    """Write messages; a client that closed its end wants no more answers."""
    try:
        async for item in saying:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await anyio.to_thread.run_sync(_put, text.encode() + b"\n", abandon_on_cancel=True)
    except OSError:
        serving.cancel()
    said.set()


def _put(raw: bytes) -> None:
    view = memoryview(raw)
    while view:
        select.select([], [1], [])
        view = view[os.write(1, view) :]
