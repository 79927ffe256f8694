"""Which addresses a name may lead to, against the registry as Python's ipaddress knows it."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.egress.addresses import closed

CLOSED = [
    ("0.0.0.0", "unspecified"),
    ("10.1.2.3", "private"),
    ("100.100.100.200", "shared"),  # a cloud's metadata
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("168.63.129.16", "cloud's own"),
    ("169.254.169.254", "link-local"),
    ("172.31.255.255", "private"),
    ("192.0.0.192", "reserved"),
    ("192.168.1.1", "private"),
    ("198.19.0.1", "benchmark"),
    ("224.0.0.251", "multicast"),
    ("255.255.255.255", "reserved"),
    ("::", "private or reserved"),
    ("::1", "loopback"),
    ("::127.0.0.1", "private or reserved"),
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:169.254.169.254", "link-local"),
    ("::ffff:0:127.0.0.1", "private or reserved"),
    ("64:ff9b::7f00:1", "loopback"),
    ("64:ff9b:1::7f00:1", "private or reserved"),
    ("2002:7f00:1::", "private or reserved"),
    ("2001::1", "private or reserved"),
    ("2001:db8::1", "private or reserved"),
    ("fe80::1", "link-local"),
    ("fe80::1%1", "link-local"),
    ("fec0::1", "private or reserved"),
    ("fd00:ec2::254", "private or reserved"),  # a cloud's metadata
    ("ff02::1", "private or reserved"),
    ("5f00::1", "private or reserved"),
]


@pytest.mark.parametrize(("address", "why"), CLOSED)
def test_an_address_that_is_not_public_is_closed(address: str, why: str) -> None:
    assert closed(ipaddress.ip_address(address)) == why


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "168.63.129.17"],
)
def test_a_public_address_is_open(address: str) -> None:
    assert closed(ipaddress.ip_address(address)) is None


@given(st.integers(0, 2**32 - 1))
def test_no_ipv4_address_is_open_that_is_not_global(number: int) -> None:
    address = ipaddress.IPv4Address(number)
    assert closed(address) is not None or (address.is_global and not address.is_multicast)


@given(st.integers(0, 2**128 - 1) | st.integers(0x2 << 124, (0x4 << 124) - 1))
def test_no_ipv6_address_is_open_that_is_not_global(number: int) -> None:
    address = ipaddress.IPv6Address(number)
    carried = address.ipv4_mapped is not None or number >> 32 == 0x64FF9B << 64
    assert closed(address) is not None or carried or address.is_global


@given(st.integers(0, 2**32 - 1))
def test_an_address_inside_another_is_judged_as_itself(number: int) -> None:
    inner = closed(ipaddress.IPv4Address(number))
    assert closed(ipaddress.IPv6Address(0xFFFF << 32 | number)) == inner
    assert closed(ipaddress.IPv6Address(0x64FF9B << 96 | number)) == inner
