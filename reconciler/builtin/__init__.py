"""Connectors that are part of the product: they run in the controller, with no process and no sandbox.

The face is ``lane.BuiltinLane``: to the router it is a connector like any other, and behind it each tool is a
function of its arguments and of who asks. ``fs`` is the first. A builtin meets what agents say and what lies
on disk, so it holds to the router's rules: bounded, by descriptor, in threads, no path or payload in records.
"""
