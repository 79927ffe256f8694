"""The agents' door: MCP over Unix sockets, the whole law of a call, files by descriptor.

Lives here: the protocol (``mcp``, ``answers``, ``telling``), the law of a call (``call``, carried out by
``flight``; the plain ones by ``straight``), files (``files``, ``beneath``, ``handoff``, ``outputs``),
sessions as they are served (``guest``), connections and doors (``connection``, ``peers``, ``server``).
May import: model, wire. Never: runtime, drivers, plan, config, doors; a vendor's name; a payload in a log.
Face: ``server.Router``.
"""
