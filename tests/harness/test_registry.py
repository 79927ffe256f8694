"""A server.json of the MCP registry as a server to take in: which way is taken, slots for what one gives."""

from typing import Any

import pytest

from reconciler.harness import registry
from reconciler.harness.formats import Left, Server

PYPI: dict[str, Any] = {
    "registryType": "pypi",
    "identifier": "mcp-weather",
    "version": "1.4.0",
    "transport": {"type": "stdio"},
    "packageArguments": [
        {"type": "positional", "value": "serve"},
        {"type": "named", "name": "--units", "default": "metric"},
        {"type": "named", "name": "--quiet"},
    ],
    "environmentVariables": [
        {"name": "WEATHER_KEY", "isRequired": True, "isSecret": True},
        {"name": "LOG_LEVEL", "default": "info"},
        {"name": "CACHE"},
    ],
}
NPM = {"registryType": "npm", "identifier": "@acme/weather", "version": "2.0.1"}
OCI = {"registryType": "oci", "identifier": "docker.io/acme/weather@sha256:" + "a" * 64}
REMOTE = {
    "type": "streamable-http",
    "url": "https://weather.example/mcp",
    "headers": [{"name": "Authorization", "value": "Bearer {token}", "isRequired": True, "isSecret": True}],
}


def of(*packages: dict[str, Any], remotes: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    return {"name": "io.example/weather", "packages": list(packages), "remotes": list(remotes), **more}


def test_a_package_of_pypi_becomes_its_program_and_its_variables() -> None:
    one = registry.server(of(PYPI))
    assert one == Server(
        "weather",
        command=("mcp-weather", "serve", "--units", "metric"),
        env={"WEATHER_KEY": "${input:WEATHER_KEY}", "LOG_LEVEL": "info"},
        untaken=("CACHE",),
    )
    assert registry.requirement(of(PYPI)) == "mcp-weather==1.4.0"


def test_what_can_be_contained_best_is_taken_unless_another_way_is_asked_for() -> None:
    whole = of(NPM, PYPI, OCI, remotes=(REMOTE,))
    assert isinstance(one := registry.server(whole), Server)
    assert one.command[0] == "mcp-weather"
    assert isinstance(one := registry.server(whole, "npm"), Server)
    assert one.command == ("npx", "--offline", "@acme/weather@2.0.1")
    assert isinstance(one := registry.server(whole, "oci"), Server)
    assert one.image == OCI["identifier"]
    assert isinstance(one := registry.server(whole, "remote"), Server)
    assert (one.url, one.headers) == (REMOTE["url"], {"Authorization": "Bearer ${input:token}"})
    assert isinstance(one := registry.server(of(remotes=(REMOTE,))), Server)
    assert one.url == REMOTE["url"]


def test_an_answer_of_the_registry_and_the_older_keys_are_read_too() -> None:
    old = {
        "registry_type": "pypi",
        "identifier": "a",
        "environment_variables": [{"name": "K", "is_secret": True}],
    }
    assert isinstance(one := registry.server({"server": of(old), "_meta": {}}), Server)
    assert one.env == {"K": "${input:K}"}
    assert registry.requirement({"server": of(old)}) == "a"


@pytest.mark.parametrize(
    ("values", "way", "why"),
    [
        (of(), "", "it names no package of pypi, npm or oci, and no remote address"),
        (of({"registryType": "nuget", "identifier": "x"}), "", "it names no package of pypi"),
        (of(PYPI), "oci", "it has no way 'oci'; it has pypi"),
        (of({**PYPI, "transport": {"type": "sse"}}), "", "it names no package of pypi"),
        (of({"registryType": "npm"}), "", "its package has no identifier"),
        (of(remotes=({"url": "https://{tenant}.example/mcp"},)), "", "its address holds a variable"),
    ],
)
def test_one_that_cannot_be_is_left_with_why(values: dict[str, Any], way: str, why: str) -> None:
    one = registry.server(values, way)
    assert isinstance(one, Left)
    assert why in one.why


@pytest.mark.parametrize(
    "values", [{}, {"name": 3}, {"name": "no-namespace"}, {"mcpServers": {}}, {"name": "a/b/c"}]
)
def test_what_is_no_server_json_is_said(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"it is no server\.json"):
        registry.server(values)


def test_hostile_values_do_no_more_than_be_left_out() -> None:
    odd = of({"registryType": "pypi", "identifier": "a; rm -rf /", "version": "1", "packageArguments": 7},
             remotes=({"url": 4, "headers": "x"}, {"url": None}))  # fmt: skip
    assert isinstance(registry.server(odd), Server)
    assert registry.requirement(odd) == ""
    assert isinstance(registry.server(odd, "remote"), Left)
    assert isinstance(registry.server(of(*[PYPI] * 10_000)), Server)
