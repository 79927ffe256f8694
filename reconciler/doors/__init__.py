"""Who comes in: the command line, the bridge, the control client, the screens.

May import: every room. Never: logic that another door would need.
Face: ``entry.main``, ``bridge.main``.
"""
