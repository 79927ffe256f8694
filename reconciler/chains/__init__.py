"""Task chains. Not built yet: ``chains/`` in a configuration is reported as such, not ignored.

Will hold: the engine, lint and templates (pure).
"""
