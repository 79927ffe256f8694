"""Bytes and messages: the bounded JSON-RPC line codec that everything on a socket uses.

Lives here: framing, envelope checks, encoding. Pure.
May import: model. Never: sockets, clocks, what a method means.
Face: ``framing.Framer``, ``jsonrpc.decode``, ``jsonrpc.encode``, ``strict.parse``.
"""
