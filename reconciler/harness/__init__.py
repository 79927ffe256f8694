"""Configuration texts of agent harnesses: read into MCP servers, and written for the agents of ours. Pure.

Lives here, to read: the formats of Claude Code, Codex, VS Code, Cursor, opencode, gridctl (``reading``,
``formats``), what in them is a secret (``secrecy``), and the connectors, bindings and agent they become
(``writing``). To write: the table of harnesses (``harnesses``), what one run is told (``rendering``,
``plugin``), our servers put into a person's file and taken out to the byte (``jsontext``, ``tomltext``,
``merging``), and what was written for whom (``ledger``, ``wishes``).
May import config and model. Never: reads a file, starts a server, asks the network, or lets a literal secret
into a text or a message. Face: ``formats.servers``, ``writing.written``, ``rendering.rendered``,
``wishes.plan``.
"""
