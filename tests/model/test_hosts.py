"""How hosts may be spelled: one form of each, and none that a resolver would read as something else."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.hosts import Allow, Target

ALLOW = Allow(["api.example.com:443", "192.0.2.7:8080", "[2001:db8::7]:443", "xn--bcher-kva.example:443"])

SPELLINGS = [
    ("api.example.com:443", True),
    ("API.Example.COM:443", True),
    ("192.0.2.7:8080", True),
    ("[2001:db8::7]:443", True),
    ("[2001:0DB8:0:0::0007]:443", True),
    ("xn--bcher-kva.example:443", True),
    ("XN--BCHER-KVA.example:443", True),
    ("api.example.com:444", False),
    ("api.example.com:80", False),
    ("evil-api.example.com:443", False),
    ("evilapi.example.com:443", False),
    ("api.example.com.evil.test:443", False),
    ("example.com:443", False),
    ("other.example:443", False),
    ("192.0.2.8:8080", False),
    ("[::ffff:192.0.2.7]:8080", False),
    ("localhost:443", False),
]
NO_HOSTS = [
    "",
    ":443",
    "api.example.com",
    "api.example.com:",
    "api.example.com:0",
    "api.example.com:00443",
    "api.example.com:+443",
    "api.example.com: 443",
    "api.example.com:65536",
    "api.example.com:443:443",
    "api.example.com.:443",
    ".api.example.com:443",
    "api..example.com:443",
    "-api.example.com:443",
    "api-.example.com:443",
    "*.example.com:443",
    "user@api.example.com:443",
    "user:secret@api.example.com:443",
    "api.example.com/:443",
    "api.example.com%00:443",
    "api example.com:443",
    "bücher.example:443",
    "①②⑦.0.0.1:443",
    "127.1:443",
    "2130706433:443",
    "0x7f000001:443",
    "0x7f.0.0.1:443",
    "0177.0.0.1:443",
    "127.0.0.01:443",
    "127.0.0.1.:443",
    "256.0.0.1:443",
    "1.2.3.4.5:443",
    "example.0x7f:443",
    "::1:443",
    "[::1:443",
    "[fe80::1%eth0]:443",
    "[127.0.0.1]:443",
    f"{'a' * 64}.example:443",
    f"{'.'.join(['a' * 50] * 6)}:443",
]


@pytest.mark.parametrize(("text", "allowed"), SPELLINGS)
def test_a_host_is_compared_in_its_one_form(text: str, allowed: bool) -> None:
    assert (Target.parse(text) in ALLOW) is allowed


@pytest.mark.parametrize("text", NO_HOSTS)
def test_what_could_be_read_as_another_host_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(the host|it is) "):
        Target.parse(text)


def test_an_empty_list_allows_nothing() -> None:
    assert Target.parse("api.example.com:443") not in Allow([])
    assert len(Allow([])) == 0


def test_a_list_with_a_wrong_entry_names_it() -> None:
    with pytest.raises(ValueError, match=r"^'\*\.example\.com:443' is no host that can be reached: "):
        Allow(["api.example.com:443", "*.example.com:443"])


@given(st.text(alphabet="a0x1.-_:[]%@/ \x00ü", max_size=24))
def test_a_target_prints_as_what_it_is_read_from(text: str) -> None:
    try:
        target = Target.parse(text)
    except ValueError:
        return
    assert Target.parse(str(target)) == target
    assert target.host.isascii()
    if target.address is None:
        assert not target.host.replace(".", "").isdigit()
    else:
        assert str(ipaddress.ip_address(target.host)) == target.host
