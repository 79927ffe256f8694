"""Connectors that are part of the product. Not built yet.

Will hold: ``fs/v1`` in the agent's scope, cassettes, shadows.
"""
