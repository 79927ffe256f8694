"""Task chains. Not built yet: ``chains/`` in a configuration is reported as such, not ignored.

Here already, and pure: when a model is asked again (``retrying``), what of a history it is shown
(``window``), which tools a task may use (``allowlists``). Will hold: the engine. The texts' languages are
``templates``.
"""
