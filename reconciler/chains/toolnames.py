"""Which tool a name means, and names for providers of models that allow no dots."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.chains.asks import ToolFace
from reconciler.model.approvals import Rule
from reconciler.model.chain import Chain, Task

_LONGEST = 64  # characters: the narrowest API's limit
_OLD_NAMES = {"local_fs": "fs", "local_shell": "shell", "webtools": "http"}  # of the format's other engines


def provider(name: str) -> str:
    """A provider as this product calls it."""
    return _OLD_NAMES.get(name, name)


def modern(chain: Chain) -> Chain:
    """The chain with its providers by this product's names, in lists, bounds and tools of its own."""

    def task(one: Task) -> Task:
        more: dict[str, object] = {}
        if config := one.execute_config:
            update: dict[str, object] = {
                "hide_tools": tuple(map(_full, config.hide_tools)),
                "tools_policies": {provider(key): bounds for key, bounds in config.tools_policies.items()},
            }
            if config.tools is not None:
                update["tools"] = tuple(map(_entry, config.tools))
            more["execute_config"] = config.model_copy(update=update)
        if one.tools:
            more["tools"] = one.tools.model_copy(update={"name": provider(one.tools.name)})
        return one.model_copy(update=more)

    return chain.model_copy(update={"tasks": tuple(map(task, chain.tasks))})


def modern_rules(rules: Iterable[Rule]) -> list[tuple[int, Rule]]:
    """The rules of a policy by this product's names, each with its place: one for ``local_shell`` holds of
    ``shell``, one for ``write_file`` of ``local_fs``, or of any provider, of ``fs_write_file``.
    """
    found: list[tuple[int, Rule]] = []
    for number, one in enumerate(rules):
        owner = provider(one.provider)
        owners = tuple(_OLD_NAMES.values()) if not owner else (owner,) if owner in _OLD_NAMES.values() else ()
        found.append((number, replace(one, provider=owner)))
        for name in owners:
            if one.tool and not one.tool.startswith(f"{name}_"):
                found.append((number, replace(one, provider=owner, tool=_leaf(name, one.tool))))
    return found


def _entry(written: str) -> str:
    return f"!{provider(written[1:])}" if written.startswith("!") else provider(written)


def _full(written: str) -> str:
    owner, dot, leaf = written.partition(".")
    return f"{provider(owner)}.{leaf}" if dot else written


def resolved(name: str, tools: Mapping[str, ToolFace]) -> ToolFace | None:
    """The tool that a model's word means: by its full name, by its provider's where that has one tool
    alone, or by its own where only one has it. None where it means none, or more than one.
    """
    if found := tools.get(name):
        return found
    owner, dot, leaf = name.partition(".")
    if dot:
        alias = tools.get(f"{provider(owner)}.{leaf}")
        return alias or _prefixed(provider(owner), leaf, tools)
    same = [one for one in tools.values() if one.name == name] or [
        one for one in tools.values() if one.provider == provider(name)
    ]
    return same[0] if len(same) == 1 else None


def of_provider(owner: str, name: str, tools: Mapping[str, ToolFace]) -> ToolFace | None:
    """The tool of a provider, with or without the provider's prefix; its only one where no name is given."""
    own = [one for one in tools.values() if one.provider == provider(owner)]
    if not name:
        return own[0] if len(own) == 1 else None
    return next((one for one in own if one.name == name), None) or _prefixed(provider(owner), name, tools)


def _prefixed(owner: str, leaf: str, tools: Mapping[str, ToolFace]) -> ToolFace | None:
    """An interface's tool by the word without its prefix: ``fs`` and ``read_file`` mean ``fs_read_file``."""
    return tools.get(f"{owner}.{_leaf(owner, leaf)}")


def _leaf(owner: str, leaf: str) -> str:
    """The whole name of a tool of ``owner`` by its word in the format's other engines."""
    if owner == "shell" and leaf in ("local_shell", "shell"):
        return "shell_run"
    if owner == "http":
        leaf = leaf.removeprefix("web_")
    return f"{owner.replace('-', '_')}_{leaf}"


def aliases(names: Iterable[str]) -> dict[str, str]:
    """For each name one of letters, digits, ``_`` and ``-`` alone, of at most 64 characters, each once."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(names):
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", name).strip("_")[:_LONGEST] or "tool"
        alias, number = plain, 2
        while alias in taken:
            tail = f"_{number}"
            alias, number = plain[: _LONGEST - len(tail)] + tail, number + 1
        taken.add(alias)
        found[name] = alias
    return found
