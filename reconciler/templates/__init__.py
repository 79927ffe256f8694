"""The small languages inside a chain's texts: Go templates with Sprig's functions, and macros. Pure.

Lives here: lexer, parser, executor and printing of Go's ``text/template``, the functions of Sprig that need
neither environment, network, clock nor chance, Go's layouts of time, and the macros of chains.
May import: model. Never: I/O, clocks, randomness; what a chain, a task or a run is.
Both towers use it: admission parses what a chain says, a run renders it.
Face: ``rendering.parsed``, ``rendering.rendered``, ``macros.expanded``.
"""
