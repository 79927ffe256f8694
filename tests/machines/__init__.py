"""Machines of other kinds, started under emulation, in which the walls of the sandbox are tried."""
