"""Dialects spoken to providers and connectors: bytes in, outcome out. Pure.

Lives here: ``upstream``, the MCP that the router's side speaks to a connector, and ``usual``, which reads the
most common of its lines in one go. Vendor dialects are not built yet.
May import: model, wire. Never: sockets, clocks, another driver.
Face: one module a dialect.
"""
