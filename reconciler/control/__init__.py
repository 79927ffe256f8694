"""Look, admit, plan, do, say: the only room that sees both towers.

Lives here: the source, the queue, the loop, status, journal, sessions, dispatch, the control socket.
May import: every room but doors. Never: a rule, a format.
Face: ``daemon.run``, ``once.apply``.
"""
