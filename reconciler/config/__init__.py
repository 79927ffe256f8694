"""Text in, text out: TOML trees become resources and problems, and edits keep comments.

Lives here: reading (tomli), places (tree-sitter), editing (tomlkit), the shape of every file and the words of
what is wrong with it, the lock, and the JSON Schemas of all of them.
May import: model. Never: paths on disk, clocks, processes; it is handed a ``Tree``.
Face: ``load.inventory``, ``toml.read``, ``toml.place``, ``toml.edit``, ``jsonplace.place``,
``places.placed``, ``lock.read``, ``lock.render``, ``schemas.render``.
"""
