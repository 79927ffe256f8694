"""What in a harness's configuration is a secret, and what refers to one.

Nobody marks secrets in these files, so it is told by name and shape, and the two mistakes are not alike: a
plain value taken for a secret costs a person one line, a secret taken for plain lies in a git repository. So
a variable's value is a secret unless it is plainly public (``public``), while an argument, which is most
often a package or a folder, is one when it looks like it (``looks_secret``).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.model.secretlike import shape

_LONG_WORDS = (
    "key", "token", "secret", "pass", "pwd", "auth", "cred", "cookie", "session", "bearer", "private", "cert",
    "signature", "signing", "salt", "webhook", "mnemonic", "licen", "connection", "database_url",
)  # fmt: skip
_SHORT_WORDS = frozenset({"pat", "pin", "api", "pem", "dsn", "otp", "jwt", "sid", "seed", "conn", "hash"})

_WORD = r"(?:[A-Z]?[a-z]{1,20}|[A-Z]{1,20}|v?[0-9]{1,6})"
_PUBLIC = re.compile(rf"(?:[~.]{{0,2}}/)?{_WORD}(?:[ ._:,/-]{{1,3}}{_WORD}){{0,15}}/?")
_MAX_DIGITS = 12  # more are a number that somebody owns

_PREFIXES = re.compile(
    r"(?:^|[^A-Za-z0-9])(?:(?:sk|pk|rk|gsk|hf|npm|r8|secret|whsec|dop_v1|shpat|shpss|figd|ntn|lin_api|github_pat"
    r"|gh[opusr]|xox[a-z]|xapp|glpat|pypi|nvapi|pplx|tvly|fc|key|tok)[-_][A-Za-z0-9_-]{6,}"
    r"|A(?:KIA|SIA|Iza|TATT)[A-Za-z0-9_-]{8,}|ya29\.|SG\.[A-Za-z0-9]|eyJ[A-Za-z0-9_-]{8,}|-----BEGIN)"
)
_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_USERINFO = re.compile(r"://(?!git@)[^/\s?#]*@")
# What assigns, with a value behind it; the name is looked for in front, so that no text is passed twice.
_ASSIGNS = re.compile(r"['\"]?(?:\s?=\s?|:\s)['\"]?(?=[^\s'\"&;])")
_MAX_ASSIGNED = 32
_NAME_BEFORE = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_OPTION = re.compile(r"(?:^|\s)--?([A-Za-z][A-Za-z0-9_-]*)\s+(?!-)\S")
_SCHEME = re.compile(r"\b(?:bearer|basic|token)\s+\S{4,}", re.IGNORECASE)
_RUN = re.compile(r"[A-Za-z0-9+=_-]{32,}")
_IMAGE_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

_REFERENCE = re.compile(
    r"\$\{(?:(?P<store>env|var|vault|input|command|config|userInput):)?(?P<name>[^{}:]*)(?P<rest>:[^{}]*)?\}"
    r"|\{(?P<sort>env|file):(?P<path>[^{}]*)\}"
)
_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that names where another is found. ``sort`` is ``env``, ``file``, ``input`` or a store's word.

    ``scheme`` is the word before it that is public (``Bearer``); ``whole`` is False when there is more text
    around it than that. ``default`` tells that the source had one, which is never repeated.
    """

    sort: str
    name: str
    scheme: str = ""
    whole: bool = True
    default: bool = False


def names_a_secret(name: str) -> bool:
    """Whether a variable, a header, an option or a query key is called like a secret."""
    folded = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")
    return any(word in folded for word in _LONG_WORDS) or bool(_SHORT_WORDS & set(folded.split("_")))


def public(text: str) -> bool:
    """Whether a value is plainly no secret: words, short numbers, a folder, an address without a query."""
    if len(text) > 200 or looks_secret(text):
        return False
    return not text or (
        _PUBLIC.fullmatch(text) is not None and sum(ch.isdigit() for ch in text) <= _MAX_DIGITS
    )


def looks_secret(text: str) -> bool:
    """Whether a text holds something with the shape of a secret."""
    text = _IMAGE_DIGEST.sub("", text)
    if any(pattern.search(text) for pattern in (_PREFIXES, _UUID, _USERINFO, _SCHEME)) or shape(text):
        return True
    if any(map(names_a_secret, _assigned(text))):
        return True
    if any(names_a_secret(found[1]) for found in _OPTION.finditer(text)):
        return True
    if any(_mixed(run, cases=True) for run in _RUN.findall(text)):
        return True
    return any(len(part) >= 16 and _mixed(part) for part in re.split(r"[^A-Za-z0-9]+", text))


def _assigned(text: str) -> Iterator[str]:
    """The names that a text gives a value to: of ``--api-key=x``, of ``X-Key: x``."""
    for count, found in enumerate(_ASSIGNS.finditer(text)):
        if count == _MAX_ASSIGNED:
            yield "secret"  # nobody reads so many: in doubt there is one
            return
        before = _NAME_BEFORE.search(text, max(0, found.start() - 64), found.start())
        if before:
            yield before[0]


def _mixed(text: str, *, cases: bool = False) -> bool:
    """Whether letters and digits are mixed (with ``cases``: letters of both cases, too), or it is one long
    run of letters of both cases.
    """
    digits = any(ch.isdigit() for ch in text)
    lower, upper = any(ch.islower() for ch in text), any(ch.isupper() for ch in text)
    if cases:
        return digits and lower and upper
    return (digits and (lower or upper)) or (lower and upper and len(text) >= 24) or len(text) >= 40


def reference(text: str, *, bare: bool = False) -> Reference | None:
    """What a value refers to, or None when it is a literal; ``bare`` also knows ``$NAME``."""
    found = _REFERENCE.search(text)
    if found is None:
        other = _BARE.search(text) if bare else None
        return _around(text, other, Reference("env", other[1])) if other else None
    if found["sort"]:
        return _around(text, found, Reference(found["sort"], found["path"]))
    default = (found["rest"] or "")[:2] in (":-", ":+")
    return _around(text, found, Reference(found["store"] or "env", found["name"], default=default))


def _around(text: str, found: re.Match[str], plain: Reference) -> Reference:
    before, after = text[: found.start()], text[found.end() :]
    scheme = re.fullmatch(r"(Bearer|Basic|Token|token|bearer)\s+", before)
    whole = not after and (not before or scheme is not None)
    return Reference(plain.sort, plain.name, scheme[1] if scheme else "", whole, plain.default)


def without_defaults(text: str) -> str:
    """The text with each reference's own default left out, for a default may be a secret."""
    return _REFERENCE.sub(_bare_name, text)


def _bare_name(found: re.Match[str]) -> str:
    if found["sort"]:
        return found[0]
    store = f"{found['store']}:" if found["store"] else ""
    return f"${{{store}{found['name']}}}"
