"""Connectors as processes: started when first called, contained, shared, stopped when idle; and agents' own.

Lives here: the life-cycle table, the supervisor, the sandbox argument builder, seccomp filters, walls; an
agent's own sandbox (``agentbox``, ``agenthost``, ``agentrun``), and the socket that leads out of one
(``netns``, ``wayout``).
May import: model. Never: JSON-RPC, tool names, TOML, plans.
Face: ``supervisor.Supervisor`` (declare, retire, ready, hold, release, observe), ``agentbox.command``,
``agentrun.run``.
"""
