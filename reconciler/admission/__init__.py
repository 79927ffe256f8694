"""May it be? Rules that say which resources are admitted, and why the others are not.

Lives here: one pure function a rule, in the ``RULES`` tuple of its file, its code beside it; the law of
frozen versions; what this release does not do.
May import: model, config. Never: I/O, clocks, the running tower.
Face: ``admit.admit``; ``frozen.entry``; ``connectors.runtime`` and ``entry``, which files alone tell.
"""
