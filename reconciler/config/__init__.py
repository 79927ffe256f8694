"""Text in, text out: TOML trees become resources and problems, and edits keep comments.

Lives here: reading (tomli), places (tree-sitter), editing (tomlkit), rendering JSON Schemas of the kinds.
May import: model. Never: paths on disk, clocks, processes; it is handed a ``Tree``.
Face: ``load.inventory``, ``toml.place``, ``toml.edit``, ``schemas.render``.
"""
