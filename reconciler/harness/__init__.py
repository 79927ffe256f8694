"""Configuration texts of agent harnesses: read into MCP servers, and written as objects of ours. Pure.

Lives here: the formats of Claude Code, Codex, VS Code, Cursor, opencode, gridctl (``reading``, ``formats``),
what in them is a secret (``secrecy``), and the connectors, bindings and agent they become (``writing``).
May import config and model. Never: reads a file, starts a server, asks the network, or lets a literal secret
into a text or a message. Face: ``formats.servers`` and ``writing.written``.

Merging our sockets into a harness's own file is not built yet: until then ``handler session open`` prints the
sockets that a harness is pointed at.
"""
