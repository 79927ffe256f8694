"""Results of cases as JUnit XML, which every CI shows: one suite an interface version, one case each."""

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from reconciler.config.evidence import CaseResult, Evidence

_NOT_XML = re.compile(
    r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # XML 1.0 has no way to write these


def text(evidence: Evidence, came: Iterable[str]) -> str:
    """The document. ``came`` says for each result, in order, what the connector answered ("": nothing to
    say); it is shown with a failure alone.
    """
    when = _attribute(evidence.started[:19])
    suites: dict[tuple[str, str], list[tuple[CaseResult, str]]] = {}
    for result, words in zip(evidence.results, came, strict=True):
        suites.setdefault((result.interface, result.tier), []).append((result, words))
    whole = evidence.results
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {_counts(whole)}>"]
    for (interface, tier), results in suites.items():
        name = f"{evidence.subject.connector} {interface} {tier}"
        own = [result for result, _ in results]
        lines.append(f"  <testsuite name={_attribute(name)} {_counts(own)} timestamp={when}>")
        for result, words in results:
            lines += _case(f"{evidence.subject.connector}.{interface}", result, words)
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def skipped(connector: str, why: str) -> str:
    """The document of an examination that did not take place: one case, which was skipped, and why."""
    whole = CaseResult(
        interface="", name="examination", tier="conformance", verdict="skipped", seconds=0.0, faults=[why]
    )
    counts = _counts([whole])
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {counts}>"]
    lines += [f"  <testsuite name={_attribute(connector)} {counts}>", *_case(connector, whole, "")]
    return "\n".join([*lines, "  </testsuite>", "</testsuites>", ""])


def _case(owner: str, result: CaseResult, words: str) -> Iterable[str]:
    named = f"classname={_attribute(owner)} name={_attribute(result.name)}"
    head = f'    <testcase {named} time="{result.seconds:.3f}"'
    if result.verdict == "passed":
        yield f"{head}/>"
        return
    yield f"{head}>"
    told = "; ".join(result.faults)
    if result.verdict == "skipped":
        yield f"      <skipped message={_attribute(told)}/>"
    else:
        yield f"      <failure message={_attribute(told)}>{escape(_plain(words))}</failure>"
    yield "    </testcase>"


def _counts(results: list[CaseResult]) -> str:
    failed = sum(result.verdict == "failed" for result in results)
    skipped = sum(result.verdict == "skipped" for result in results)
    seconds = sum(result.seconds for result in results)
    return f'tests="{len(results)}" failures="{failed}" errors="0" skipped="{skipped}" time="{seconds:.3f}"'


def _attribute(text: str) -> str:
    return quoteattr(_plain(text))


def _plain(text: str) -> str:
    return _NOT_XML.sub("?", text)
