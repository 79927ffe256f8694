"""Dialects spoken to providers and connectors: bytes in, outcome out. Pure.

Lives here: ``upstream``, the MCP that the router's side speaks to a connector, and ``usual``, which reads the
most common of its lines in one go; one module for each vendor dialect (``openai_*``, ``anthropic_messages``);
``echo_session``, the law of sessions, which no profile uses yet. What they share is functions:
``sealing`` (bytes), ``stating`` (what a profile states), ``reading`` and ``picking`` (answers), ``sse`` and
``streaming`` (answers in pieces), ``bytesof`` (media).
May import: model, wire. Never: sockets, clocks, another driver.
Face: ``asking`` says what a driver is; ``roll`` lists them by name.
"""
