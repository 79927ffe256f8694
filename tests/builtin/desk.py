"""Asks builtin tools as the router would: by the contract, in a session, with a scope."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from reconciler.admission.view import inside
from reconciler.builtin import fs
from reconciler.builtin.asking import Asked, Ended
from reconciler.config import toml
from reconciler.model.contract import Contract, compiled
from reconciler.model.resources import Interface
from reconciler.model.routes import ScopeFolder
from reconciler.router.beneath import Denied

VERSION = Path(__file__).resolve().parents[2] / "catalog/interfaces/fs/v1"

__all__ = ["VERSION", "Desk", "contract", "inside"]


@cache
def contract() -> Contract:
    spec = toml.read((VERSION / "interface.toml").read_bytes())
    return compiled(Interface.model_validate(spec), (VERSION / "tools.json").read_bytes())


class Desk:
    """One session of an agent with a scope; every question and answer is held to the contract."""

    def __init__(
        self, *scope: ScopeFolder, session: str = "s1", wanted: Callable[[], bool] = lambda: True
    ) -> None:
        self.asked = Asked(session, scope, wanted)

    def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer, or ``{"error": code}``."""
        of = contract().tools[tool]
        assert of.input_fault(arguments) is None, of.input_fault(arguments)
        try:
            answer = fs.TOOLS[tool](arguments, self.asked)
        except Ended as ended:
            return {"error": self._told(ended.code, ended.diagnostic, arguments)}
        except Denied as denied:
            return {"error": self._told(denied.denial.value, denied.diagnostic, arguments)}
        assert of.output_fault(answer) is None, of.output_fault(answer)
        assert len(json.dumps(answer)) <= contract().spec.limits.max_output_bytes
        return answer

    def _told(self, code: str, diagnostic: str, arguments: Mapping[str, Any]) -> str:
        assert code in contract().errors
        for value in arguments.values():  # a record holds no payload
            assert not isinstance(value, str) or len(value) < 4 or value not in diagnostic
        return code
