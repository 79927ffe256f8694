"""The ledger of effects. Not built yet: an interface with an effect cannot be selected today.

Will hold: the attempt machine (pure), the SQLite ledger, the relay of companion tools.
"""
