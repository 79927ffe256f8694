"""The words for click of ``connector check``; ``examination`` does it."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

from typing import Any

import click

from reconciler.doors import usage


@click.group("connector")
def _connector() -> None:
    """Connectors: whether one keeps what it promises."""


@_connector.command("check")
@click.argument("connector", metavar="CONNECTOR")
@click.option("--binding", default="", help="Examine it as this binding configures it.")
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help="A setting, where no binding is.")
@click.option("--model", "models", multiple=True, metavar="ID", help="A model, where no binding is.")
@click.option("--live", is_flag=True, help="Let it reach what its egress lists: fixtures leave this machine.")
@click.option("--certify", is_flag=True, help="Also kill it, silence it, cut it off: it must come back.")
@click.option("--case", "names", multiple=True, metavar="NAME", help="These cases alone; no evidence then.")
@click.option("--junit", default="", metavar="FILE", help="Also write the results as JUnit XML.")
@click.option("--record", is_flag=True, help="Also write the evidence beside the connector, to be committed.")
@click.option("--allow-effects", is_flag=True, help="Also ask cases that cost or change something.")
@click.pass_obj
def _check(settings: usage.Settings, /, connector: str, binding: str, **options: Any) -> int:
    """Ask CONNECTOR every case of every interface version that it implements, and keep the evidence.

    The calls go through a router and a sandbox of its own: no controller is needed, and none is disturbed.
    Without --binding it is examined with the defaults of its settings and what --set and --model give; one
    that needs secrets or other settings is examined as its only binding has it. Whatever lists egress, or is
    given a server, is examined with --live alone.

    \b
      handler connector check ocr-rapid --certify
      handler connector check ocr-mistral --binding ocr-paid --live --junit ocr.xml
      handler connector check llm-local --set baseUrl=http://127.0.0.1:8080/v1 --model qwen3 --live

    Exit: 0 every case passed, 1 some did not, 2 could not run, 77 skipped: no secret, or no --live.
    """
    from reconciler.doors import examination

    wish = examination.Wish(
        connector,
        binding.removeprefix("binding/"),
        options["names"],
        options["junit"],
        options["given"],
        options["models"],
        live=options["live"],
        certify=options["certify"],
        record=options["record"],
        effects=options["allow_effects"],
    )
    return examination.run(settings, wish)


COMMANDS = (_connector,)
