"""Task chains as they run: the engine, its handlers, and the laws that they go by. Pure.

Lives here: a run as a value that asks and is answered (``engine``, ``asks``, ``replies``), what flows and
what is told (``flow``, ``history``, ``events``), the handlers of tasks, windows, retries, allowlists.
May import: model, templates. Never: I/O, clocks, randomness; a model, a tool, a file.
What a chain is, is ``model.chain``; whether one may be, ``admission.chains``; a text, ``templates``.
Face: ``engine.begin``, ``engine.resumed``, ``Run.ask``, ``Run.advance``.
"""
