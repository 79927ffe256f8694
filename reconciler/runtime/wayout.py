"""Where a sandbox finds its one way out, and the variables that tell its programs: pure.

A proxy of CONNECT requests on loopback inside. It takes no plain HTTP, and that variable is set all the same,
so that whoever tries hears why instead of waiting for an address that no network has.
"""

HOST, PORT = "127.0.0.1", 3128
ADDRESS = f"http://{HOST}:{PORT}"
_NAMES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_INSIDE = "localhost,127.0.0.1,::1"


def variables() -> dict[str, str]:
    """What programs read to find the proxy; Node asks to be told to."""
    return dict.fromkeys(_NAMES, ADDRESS) | {
        "NO_PROXY": _INSIDE,
        "no_proxy": _INSIDE,
        "NODE_USE_ENV_PROXY": "1",
    }
