"""The official Python client of the first generation (mcp 1.x), driven through every case of the matrix.

Run in an environment of its own: ``python drive_python_1.py '{"command": …, "args": …, …}'``; prints one JSON
report. It does what an application with this client would do, and judges nothing.
"""

import asyncio
import contextlib
import importlib.metadata
import json
import sys
from typing import Any

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client

PLAN: dict[str, Any] = json.loads(sys.argv[1])


def plain(result: types.CallToolResult) -> dict[str, Any]:
    return {
        "isError": bool(result.isError),
        "structured": result.structuredContent,
        "texts": [part.text if isinstance(part, types.TextContent) else part.type for part in result.content],
        "meta": result.meta,
    }


class Driver:
    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return plain(await self.session.call_tool(name, arguments))

    async def fault(self, name: str, **arguments: Any) -> dict[str, Any]:
        try:
            return {"answered": await self.call(name, **arguments)}
        except McpError as fault:
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

        answer = plain(await self.session.call_tool(name, arguments, progress_callback=hear))
        return {"heard": heard, "answer": answer, "release": await others[0]}

    async def cancel(self, name: str, **arguments: Any) -> dict[str, Any]:
        """This generation only leaves a call; what cancels it, an application has to say itself."""
        begun = asyncio.Event()

        async def hear(*_: Any) -> None:
            begun.set()

        number = self.session._request_id
        task = asyncio.create_task(self.session.call_tool(name, arguments, progress_callback=hear))
        await begun.wait()
        params = types.CancelledNotificationParams(requestId=number, reason="the user pressed escape")
        note = types.CancelledNotification(method="notifications/cancelled", params=params)
        await self.session.send_notification(types.ClientNotification(note))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return {"given_up": task.cancelled()}

    async def tools(self) -> list[Any]:
        listed = await self.session.list_tools()
        return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed.tools]


async def main() -> dict[str, Any]:
    server = StdioServerParameters(command=PLAN["command"], args=PLAN["args"], env=PLAN["env"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        driver = Driver(session)
        report: dict[str, Any] = {
            "sdk": importlib.metadata.version("mcp"),
            "protocol": hello.protocolVersion,
            "server": hello.serverInfo.name,
            "instructions": hello.instructions,
            "tools": await driver.tools(),
        }
        for step in PLAN["steps"]:
            act = getattr(driver, step["act"])
            report[step["name"]] = await act(step["tool"], **step["arguments"])
        return report


print(json.dumps(asyncio.run(main())))
