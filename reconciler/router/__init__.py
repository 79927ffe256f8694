"""The agents' door: MCP over Unix sockets, the whole law of a call, files by descriptor.

Lives here: the protocol, the law of a call, the scope, the server.
May import: model, wire. Never: runtime, drivers, plan, config, doors; a vendor's name; a payload in a log.
Face: ``server.Router``.
"""
