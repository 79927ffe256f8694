"""What an instance of runtime ``dialect`` speaks by: the facts and mappings of its own pinned folder.

They are read from the copy that was made when the instance was declared, so that an open session keeps the
profiles and mappings that it began with. Nothing here sends, and nothing is read twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli

from reconciler.model.admitting import offering, selected
from reconciler.model.dialect import Profile
from reconciler.model.recipes import Recipe

RUNTIME = "dialect"
_ADDRESS = "baseUrl"
_VARIABLE = "HANDLER_SETTING_BASE_URL"


class NotSpokenError(ValueError):
    """No profile of the instance answers that: ``code`` is the router's, the text is for operators."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True, slots=True)
class Mapped:
    """How one tool of an interface becomes an operation, and its answer the interface's."""

    operation: str
    input: str = ""
    output: str = ""
    needs: tuple[str, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)

    def code_of(self, code: str, detail: str) -> str:
        """The interface's code for what a driver said: by a word of its detail, by its code, else ``*``."""
        words = detail.replace(",", " ").split()
        for word, ours in self.errors.items():
            if word in words:
                return ours
        return self.errors.get(code) or self.errors.get("*", code)

    def code_without(self, fact: str, code: str) -> str:
        """The interface's code where a call is not within a fact, like ``field.prompt`` or ``media.in`` (of
        any type); ``code`` where the mapping names none.
        """
        return self.errors.get(fact.partition(":")[0], code)


@dataclass(frozen=True)
class Spoken:
    """The facts and mappings of one instance."""

    recipe: Recipe
    profiles: tuple[Profile, ...]
    tools: Mapping[str, Mapped]
    base: str | None = None  # of a server that the binding names

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The exact ids that may be asked for, the default first: the binding's, else all that profiles
        list.
        """
        listed = dict.fromkeys(one for profile in self.profiles for one in profile.identity.models)
        return self.recipe.models or tuple(listed)

    def models_of(self, operation: str) -> tuple[str, ...]:
        """Those of them that an operation may be asked with."""
        return tuple(one for one in self.models if selected(self.profiles, operation, one) is not None)

    def chosen(self, operation: str, model: str) -> tuple[Profile, str]:
        """The profile that answers, and the exact model ("" where the operation sends none). An id that is
        not listed is refused: no family, no prefix, no other model. Raises NotSpokenError.
        """
        offered = offering(self.profiles, operation)
        if not offered:
            raise NotSpokenError("unavailable", f"no profile offers {operation}")
        if not any("model" in (one.operation(operation) or _none()).fields for one in offered):
            return offered[0], ""
        known = self.models_of(operation)
        named = model or next(iter(known), "")
        profile = selected(self.profiles, operation, named) if named in known else None
        if profile is None:
            raise NotSpokenError("refused", "models: the model is not one of those that are granted")
        return profile, named


def _none() -> Any:
    raise AssertionError("an offered operation is there")


def load(recipe: Recipe, folder: Path | None) -> Spoken:
    """What the pinned folder of an instance says; raises OSError or ValueError where it is not whole."""
    if folder is None:
        raise ValueError("its pinned facts are gone: apply the configuration again")
    profiles = tuple(
        Profile.model_validate_json((folder / "profiles" / f"{ref}.json").read_bytes())
        for ref, _ in recipe.profiles
    )
    told = tomli.loads((folder / "connector.toml").read_text())
    setting = told.get("settings", {}).get(_ADDRESS, {})
    base = dict(recipe.settings).get(setting.get("env", _VARIABLE))
    tools = {name: _mapped(one) for name, one in told.get("tool", {}).items() if "operation" in one}
    return Spoken(recipe, profiles, tools, base)


def _mapped(one: Mapping[str, Any]) -> Mapped:
    return Mapped(
        operation=one["operation"],
        input=one.get("input", ""),
        output=one.get("output", ""),
        needs=tuple(one.get("needs", ())),
        errors=one.get("errors", {}),
    )
