"""One row of a table of bad input: the smallest text that breaks one rule, and every word said of it."""

from dataclasses import dataclass, field

from reconciler.admission.admit import admit
from reconciler.model.problems import Severity
from tests.admission import build
from tests.admission.build import Files


@dataclass(frozen=True)
class Bad:
    """``fix`` is what the mend says, done: (file, text, text to type) with "" for a new line, or whole files.

    The text to type must stand in the mend.
    """

    code: str
    config: Files
    file: str
    path: str  # as people write it: services.ocr
    what: str
    mend: str
    fix: tuple[str, str, str] | Files | None = None
    catalog: Files = field(default_factory=build.catalog)
    lock: tuple[str, ...] = ()
    warning: bool = False
    reason: str = "SchemaInvalid"
    alone: bool = True  # it is the only error of the input

    def __str__(self) -> str:
        return f"{self.code} {self.what[:40]}"


def check(bad: Bad) -> None:
    """The input gives exactly this problem, and doing what the mend says mends it."""
    seen = build.inventory(bad.config, bad.catalog, lock=bad.lock)
    admission = admit(seen, {}, None, build.WHERE)
    problem = build.only(admission, bad.code)
    assert (problem.at.file, problem.field_path) == (bad.file, bad.path)
    assert (problem.what, problem.mend) == (bad.what, bad.mend)
    assert problem.reason == bad.reason
    assert problem.why
    assert not problem.what.endswith(".")
    assert problem.severity is (Severity.WARNING if bad.warning else Severity.ERROR)
    if bad.alone:
        assert [one.code for one in build.errors(admission)] == ([] if bad.warning else [bad.code])
    if problem.about is not None and not bad.warning:
        assert problem.about not in admission.in_force
        assert problem in admission.refused[problem.about]
    if bad.fix is not None:
        check_mend(bad)


def check_mend(bad: Bad) -> None:
    if isinstance(bad.fix, tuple):
        file, old, new = bad.fix
        typed = new.removeprefix(old).strip(" ,\n")  # what stands before an insertion is no part of it
        assert new in bad.mend or typed in bad.mend, "the text to type is not in the mend"
        text = bad.config[file]
        assert isinstance(text, str)
        assert old in text
        first, rest = text.split("\n", 1)
        mended = {**bad.config, file: text.replace(old, new, 1) if old else f"{first}\n{new}\n{rest}"}
    else:
        mended = {**bad.config, **(bad.fix or {})}
    after = build.judge(mended, bad.catalog, lock=bad.lock)
    assert bad.code not in [one.code for one in after.problems], after.problems
    assert not build.errors(after)
