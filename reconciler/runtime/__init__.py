"""Connectors as processes: started when first called, contained, shared, stopped when idle.

Lives here: the life-cycle table, the supervisor, the sandbox argument builder, seccomp filters, walls.
May import: model. Never: JSON-RPC, tool names, TOML, plans.
Face: ``supervisor.Supervisor`` (declare, retire, ready, hold, release, observe).
"""
