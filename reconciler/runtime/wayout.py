"""Where a sandbox finds its one way out, and the variables that tell its programs: pure.

A proxy of CONNECT requests on loopback inside. It takes plain HTTP for listed addresses alone, and that
variable is always set, so that whoever tries hears why instead of waiting for an address that no network has.
Loopback inside is the sandbox's own and asked directly, but for addresses that are listed: those are outside.
"""

from collections.abc import Iterable

from reconciler.model.hosts import Target

HOST, PORT = "127.0.0.1", 3128
ADDRESS = f"http://{HOST}:{PORT}"
_NAMES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_INSIDE = ("localhost", "127.0.0.1", "::1")


def variables(listed: Iterable[str]) -> dict[str, str]:
    """What programs read to find the proxy of a list of hosts and ports; Node asks to be told to."""
    outside = {Target.parse(one).host for one in listed}
    inside = ",".join(one for one in _INSIDE if one not in outside)
    return dict.fromkeys(_NAMES, ADDRESS) | {
        "NO_PROXY": inside,
        "no_proxy": inside,
        "NODE_USE_ENV_PROXY": "1",
    }
