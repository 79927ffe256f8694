"""The ledger of effects: what may have happened in the world is written down before it is tried.

Lives here: the attempt machine (pure), its records and identities, the ledger (SQLite), its one writer, the
relay that finds out what became of attempts, retention.
May import: model, kit.
Never: a driver, a connector, a policy, a network: the relay asks a ``Reconciler`` that it is handed.
Face: ``writing.Writing`` for the controller's loop, ``ledger.Ledger`` where nothing else runs.
"""
