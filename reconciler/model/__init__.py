"""The words that both towers speak: frozen values, and nothing that happens.

Lives here: names, problems, resource kinds, compiled contracts, recipes, routes, calls, status values.
May import: pydantic (``twins`` alone, when it is asked), the schema engines (``contract`` alone), rfc8785.
Never: I/O, clocks, randomness, ``async``.
Face: every public name of its modules; other rooms import them by name.
"""
