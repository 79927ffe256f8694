"""Which addresses are public: what a name may lead to, by tables of our own.

Python's ``is_global`` differs between its releases and calls addresses global that carry a private one
inside (``::ffff:127.0.0.1``, 6to4 and NAT64 forms), so the IANA special-purpose registries are written down
here. The rule is turned round for IPv6: only what is known to be public is. The hosts of clouds that tell
secrets to whoever asks from inside (169.254.169.254 and its kin) are link-local, shared or unique-local, and
closed with those ranges; the one that has a public address is named.
"""

import ipaddress

from reconciler.model.hosts import Address

_CLOSED_V4 = tuple(
    (ipaddress.IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),
        ("127.0.0.0/8", "loopback"),
        (
            "168.63.129.16/32",
            "cloud's own",
        ),  # answers to every machine of that cloud, from a public address
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmark"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_UNICAST = ipaddress.IPv6Network("2000::/3")
_CLOSED_V6 = tuple(
    ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an IPv4 address


def closed(address: Address) -> str | None:
    """Why an address is not public, as words before "address", or None when it is."""
    if isinstance(address, ipaddress.IPv6Address):
        return _closed_v6(address)
    return next((why for network, why in _CLOSED_V4 if address in network), None)


def _closed_v6(address: ipaddress.IPv6Address) -> str | None:
    if (inner := _carried(address)) is not None:
        return closed(inner)
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address not in _UNICAST or any(address in network for network in _CLOSED_V6):
        return "private or reserved"
    return None


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that is meant, where the form of an IPv6 address says so."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped
