"""Does it keep its promise? Cases judged through the real router.

Lives here: ``cases``, the format of conformance cases and the judge; ``evidence``, what checks leave and what
that proves (pure).
May import: model, config's shapes. Never: TOML, plans.
Face: ``cases.judge``, ``evidence.proof``.
"""
