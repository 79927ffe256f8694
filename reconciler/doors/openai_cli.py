"""The words for click of ``openai serve|token``; ``openai_serving`` does them."""
# ruff: noqa: PLC0415 - a command pays for its own rooms and for no other's

import click

from reconciler.doors import usage

_AGENT = click.option("--agent", default="", metavar="AGENT", help="As whom; the only one without it.")


@click.group("openai")
def _openai() -> None:
    """A door for programs that speak OpenAI's chat protocol: to an agent's models, and to chains."""


@_openai.command("serve")
@_AGENT
@click.option(
    "--listen", default="127.0.0.1:8417", show_default=True, metavar="HOST:PORT", help="On loopback."
)
@click.pass_obj
def _serve(settings: usage.Settings, agent: str, listen: str) -> int:
    """Serve /v1/chat/completions and /v1/models in the foreground, and print the address.

    Models are those that AGENT's services.llm grants, by their exact ids; a chain is the model chain:ID, or
    the address with /openai/ID/v1. Every request needs the token. What is asked is asked as AGENT: its
    grants and policies hold. A client that leaves ends what it asked for.

    \b
      handler openai token > token
      handler openai serve
      curl -H "Authorization: Bearer $(cat token)" http://127.0.0.1:8417/v1/models

    --timeout bounds one answer (600 s). Exit: 0 told to stop, 1 it cannot serve here.
    """
    from reconciler.doors import openai_serving

    return openai_serving.serve(settings, agent, listen)


@_openai.command("token")
@_AGENT
@click.option("--revoke", is_flag=True, help="Let nobody in any more.")
@click.pass_obj
def _token(settings: usage.Settings, agent: str, *, revoke: bool) -> int:
    """Make the token of AGENT's door and print it: now, and never again.

    A new one replaces the one before at once, also for a door that runs. Only its digest is kept.

    Exit: 0 made or revoked, 1 there was none to revoke.
    """
    from reconciler.doors import openai_serving

    return openai_serving.make_token(settings, agent, revoke=revoke)


COMMANDS = (_openai,)
