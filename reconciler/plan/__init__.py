"""What must change? Desired state from what is admitted, and the steps from what is observed.

Lives here: instance recipes and their digests, route tables, the diff, the blast radius.
May import: model, config, admission. Never: I/O, clocks, the running tower.
Face: ``desired.desire``, ``diff.steps``, ``impact.impact``.
"""
