"""The official Python client of the second generation (mcp 2.x), driven through every case of the matrix.

``python drive_python_2.py '{"command": …, "mode": "auto" | "legacy", …}'`` prints one JSON report. It does
what an application with this client would do, and judges nothing.
"""

import asyncio
import contextlib
import importlib.metadata
import json
import sys
from typing import Any

from mcp import MCPError, StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

PLAN: dict[str, Any] = json.loads(sys.argv[1])


def plain(result: Any) -> dict[str, Any]:
    return {
        "isError": bool(result.is_error),
        "structured": result.structured_content,
        "texts": [part.text if part.type == "text" else part.type for part in result.content],
        "meta": result.meta,
    }


class Driver:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return plain(await self.client.call_tool(name, arguments))

    async def fault(self, name: str, **arguments: Any) -> dict[str, Any]:
        try:
            return {"answered": await self.call(name, **arguments)}
        except MCPError as fault:
            return {"code": fault.error.code, "message": fault.error.message}

    async def progress(self, name: str, **arguments: Any) -> dict[str, Any]:
        """While the call runs, another one lets it go on; a callback that waited would hold up reading."""
        heard: list[Any] = []
        others: list[asyncio.Task[Any]] = []

        async def hear(done: float, total: float | None, message: str | None) -> None:
            if not heard:
                release = self.call("drill_release", tag=arguments["tag"])
                others.append(asyncio.create_task(release))
            heard.append([done, total, message])

        answer = plain(await self.client.call_tool(name, arguments, progress_callback=hear))
        return {"heard": heard, "answer": answer, "release": await others[0]}

    async def cancel(self, name: str, **arguments: Any) -> dict[str, Any]:
        """A task that is cancelled tells the server by itself."""
        begun = asyncio.Event()

        async def hear(*_: Any) -> None:
            begun.set()

        task = asyncio.create_task(self.client.call_tool(name, arguments, progress_callback=hear))
        await begun.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return {"given_up": task.cancelled()}

    async def tools(self) -> list[Any]:
        listed = await self.client.list_tools()
        return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed.tools]


async def main() -> dict[str, Any]:
    server = StdioServerParameters(command=PLAN["command"], args=PLAN["args"], env=PLAN["env"])
    async with Client(stdio_client(server), mode=PLAN["mode"]) as client:
        driver = Driver(client)
        report: dict[str, Any] = {
            "sdk": importlib.metadata.version("mcp"),
            "protocol": client.protocol_version,
            "server": client.server_info.name if client.server_info else None,
            "instructions": client.instructions,
            "tools": await driver.tools(),
        }
        for step in PLAN["steps"]:
            act = getattr(driver, step["act"])
            report[step["name"]] = await act(step["tool"], **step["arguments"])
        return report


print(json.dumps(asyncio.run(main())))
