"""Does it keep its promise? Cases judged through the real router.

Lives here: ``cases``, the format of conformance cases and the judge (pure).
May import: model, router. Never: TOML, plans.
Face: ``cases.judge``.
"""
