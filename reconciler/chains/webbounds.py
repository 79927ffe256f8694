"""A chain's bounds on ``http``: they become arguments of the call, so that they hold at every redirect, too.

The tool takes hosts, a size and a time that narrow what its binding lets it reach; a bound on tries is kept
by there being one, and waits between tries by there being none.
"""

from collections.abc import Mapping
from typing import Any

from reconciler.chains.allowlists import NUMBER

_CEILINGS = {"_max_response_bytes": "max_bytes", "_request_timeout_seconds": "timeout_seconds"}
_BODY = "_max_request_body_bytes"
_HOSTS = {"_allowed_hosts": "allowed_hosts", "_denied_hosts": "denied_hosts"}
_TRIES = frozenset({"_max_attempts", "_initial_backoff_ms", "_max_backoff_ms"})
_SCHEMES, _STRAIGHT = "_allowed_schemes", "_disallow_redirects"
KEYS = frozenset({*_CEILINGS, *_HOSTS, *_TRIES, _BODY, _SCHEMES, _STRAIGHT})
_READS = ("http_get", "http_head")  # what follows redirects, and takes the word not to
_MOST = {"max_bytes": 33_554_432, "timeout_seconds": 50}
_MOST_HOSTS = 64


def kept(tool: str, arguments: Mapping[str, Any], policies: Mapping[str, str]) -> dict[str, Any] | str:
    """The arguments as they may be called with, or why they may not."""
    found = dict(arguments)
    for key in (*_CEILINGS, _BODY, *_TRIES):
        if key in policies and not NUMBER.fullmatch(policies[key].strip()):
            return f"the chain's bound {key!r} is no number"
    for key, name in _CEILINGS.items():
        if (most := int(policies.get(key, "0"))) > 0:
            asked = found.get(name, _MOST[name])
            found[name] = min(most, asked, _MOST[name]) if isinstance(asked, int | float) else asked
    body = found.get("body", "")
    if 0 < int(policies.get(_BODY, "0")) < len(str(body).encode("utf-8", "replace")):
        return "the body is larger than the chain allows"
    schemes = _items(policies.get(_SCHEMES, ""))
    if schemes and str(found.get("url", "")).partition(":")[0].lower() not in schemes:
        return "the chain does not allow this scheme"
    # From http to https a redirect may lead, and never back: both are bounded where one alone is allowed.
    if tool in _READS and (policies.get(_STRAIGHT, "").strip().lower() == "true" or schemes == {"http"}):
        found["follow_redirects"] = False
    return _with_hosts(found, policies)


def _with_hosts(found: dict[str, Any], policies: Mapping[str, str]) -> dict[str, Any] | str:
    for key, name in _HOSTS.items():
        hosts = sorted(_items(policies.get(key, "")))
        if not hosts:
            continue
        if len(hosts) > _MOST_HOSTS:
            return f"the chain's bound {key!r} lists more than {_MOST_HOSTS} hosts"
        own = [str(one).lower() for one in found.get(name) or ()]
        if name == "denied_hosts":
            found[name] = [*own, *hosts][:_MOST_HOSTS]
            if len(own) + len(hosts) > _MOST_HOSTS:
                return "more hosts are denied than a call can name"
        elif name in found:
            found[name] = [one for one in own if one in hosts]
        else:
            found[name] = hosts
    return found


def _items(text: str) -> set[str]:
    return {one.strip().lower() for one in text.split(",") if one.strip()}
