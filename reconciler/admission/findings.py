"""One thing that is wrong, or odd, inside a text (a schema, a suite, a chain): before its file is known."""

from dataclasses import dataclass

from reconciler.model.names import ObjectRef
from reconciler.model.problems import Path, Problem, Severity, Span


@dataclass(frozen=True, slots=True)
class Finding:
    """What, why and mend, at a path inside the text; ``on_key`` where the key itself is meant."""

    code: str
    path: Path
    what: str
    why: str
    mend: str
    severity: Severity = Severity.ERROR
    on_key: bool = False
    candidates: tuple[str, ...] = ()

    def problem(self, file: str, about: ObjectRef | None) -> Problem:
        """The same as a problem of a file."""
        return Problem(
            self.code,
            self.what,
            self.why,
            self.mend,
            Span(file),
            self.path,
            self.severity,
            about,
            candidates=self.candidates,
            on_key=self.on_key,
        )


def warning(code: str, path: Path, *words: str) -> Finding:
    """A finding that refuses nothing: its what, why and mend."""
    what, why, mend = words
    return Finding(code, path, what, why, mend, Severity.WARNING)
