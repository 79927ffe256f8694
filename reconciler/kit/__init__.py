"""What a python connector imports, and nothing else: one file of the standard library.

``handler_connector.py`` is mounted alone, read-only, into the sandbox of every python connector.
May import: the standard library only.
"""
