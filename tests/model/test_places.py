"""What a setting's value may open: one folder of documents, or one server, and how neither may be spelled."""

import pytest

from reconciler.model import places


@pytest.mark.parametrize(
    ("form", "value", "target"),
    [
        ("url", "https://api.example.com/v1", "api.example.com:443"),
        ("url", "https://API.example.com", "api.example.com:443"),
        ("url", "https://api.example.com:8443/", "api.example.com:8443"),
        ("url", "http://127.0.0.1:8080/search", "127.0.0.1:8080"),
        ("url", "http://192.168.1.5", "192.168.1.5:80"),
        ("url", "http://[::1]:8080", "[::1]:8080"),
        ("host", "mail.example.com:465", "mail.example.com:465"),
    ],
)
def test_a_server_is_one_host_and_port(form: places.Format, value: str, target: str) -> None:
    assert [str(one) for one in places.targets(form, value)] == [target]
    assert places.fault(form, value) is None


def test_a_list_opens_each_of_its_hosts_and_one_that_is_none_names_itself() -> None:
    listed = places.targets("hosts", "api.example.com:443  127.0.0.1:8080")
    assert list(map(str, listed)) == ["api.example.com:443", "127.0.0.1:8080"]
    assert "of 'localhost:1'" in str(places.fault("hosts", "api.example.com:443 localhost:1"))
    for wrong in ("", " ", "api.example.com", "a.example:1,b.example:2", " ".join(["a.example:1"] * 257)):
        assert places.fault("hosts", wrong)


@pytest.mark.parametrize(
    "value",
    [
        "http://example.com/",
        "https://me:secret@example.com/",
        "https://example.com/?key=1",
        "https://example.com/#x",
        "https://example.com /",
        "https://exa\nmple.com/",
        "https://localhost:8080",
        "http://127.1:80",
        "http://2130706433",
        "http://0x7f.1/",
        "https://example.com:0",
        "https://example.com:65536",
        "https://example.com.",
        "https://*.example.com",
        "https://169.254.169.254/latest",
        "ftp://example.com",
        "//example.com",
        "HTTPS://example.com",
        "https://",
        "",
        7,
    ],
)
def test_what_two_readers_could_read_differently_is_no_url(value: object) -> None:
    assert places.fault("url", value)


@pytest.mark.parametrize("value", ["mail.example.com", "https://mail.example.com:465", "a b:1", "x:y", 1])
def test_a_host_has_a_port_and_nothing_else(value: object) -> None:
    assert places.fault("host", value)


@pytest.mark.parametrize("value", ["~/documents", "/srv/wiki", "/home/ada/papers/", "/var/lib/corpus"])
def test_a_folder_of_documents_can_be_shown(value: str) -> None:
    assert places.fault("folder", value) is None
    assert places.targets("folder", value) == ()


@pytest.mark.parametrize(
    "value",
    [
        "/", "~", "~/", "/home", "/home/ada", "/root", "/etc", "/etc/ssl", "/proc/self", "/usr", "/var",
        "/run/x", "documents", "~ada/documents", "/srv/../etc", "/srv//wiki", "/srv/./wiki", "/srv/wiki\n",
        "~/.ssh",
        "/home/ada/.config/x", 3,
    ],
)  # fmt: skip
def test_a_whole_world_is_no_folder_of_documents(value: object) -> None:
    assert places.fault("folder", value)
