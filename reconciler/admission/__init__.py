"""May it be? Rules that say which resources are admitted, and why the others are not.

Lives here: one pure function a rule, in the ``RULES`` tuple of its file; the law of frozen versions.
May import: model, config. Never: I/O, clocks, the running tower.
Face: ``admit.admit``.
"""
