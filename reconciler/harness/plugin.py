"""An agent's services as one Agent Plugin (specification 1.0.0): a manifest, servers, skills. Pure.

The format allows a server's command to be a bare name or a file of the plugin, and no absolute path: so the
plugin has a program of its own, two lines that start the bridge.
"""

import shlex
from collections.abc import Sequence

from reconciler.harness import rendering
from reconciler.harness.harnesses import HARNESSES, Service
from reconciler.harness.rendering import Skill

PROGRAM = "bin/handler-service"
_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"


def files(agent: str, services: Sequence[Service], skills: Sequence[Skill]) -> dict[str, bytes]:
    """The plugin's files by path below its root; ``PROGRAM`` has to be executable."""
    manifest = {
        "$schema": _SCHEMA,
        "name": f"handler-{agent}",
        "description": f"The services of agent {agent}: {', '.join(one.name for one in services) or 'none'}",
    }
    made = {
        "plugin.json": rendering.text(manifest),
        "mcp.json": rendering.text(rendering.document(HARNESSES["plugin"], services)),
    }
    if services:
        made[PROGRAM] = f'#!/bin/sh\nexec {shlex.quote(services[0].command[0])} "$@"\n'.encode()
    return made | {f"skills/{skill.name}/SKILL.md": skill.text for skill in skills}
