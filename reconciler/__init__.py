"""Handler: a declarative reconciler that gives AI agents stable services over swappable providers.

The rooms, what each may import and why, are drawn in ``docs/ARCHITECTURE.md``.
"""

__version__ = "0.1.0"
