"""What one connector makes, another has to understand: through a controller, by the commands of a person."""

import json
import tempfile
from pathlib import Path

from tests.kit.house import house, wait_for

SENTENCE = "the total is forty two"
HEARD = "forty two"
INSTALLED_S = 900  # an engine's packages may have to be fetched


def speech() -> str:
    """An agent speaks a sentence into a file and has that file written down; gives what was heard."""
    with tempfile.TemporaryDirectory() as folder, house(Path(folder)) as made:
        made.write("handler.toml", 'apiVersion = "handler.config/v1"\n')
        for name in ("tts-espeak", "transcribe-sphinx"):
            made.write(f"bindings/{name}.toml", f'apiVersion = "handler.binding/v1"\nconnector = "{name}"\n')
        made.write(
            "agents/clerk.toml",
            'apiVersion = "handler.agent/v1"\nrequires = ["tts/v1", "transcribe/v1"]\n'
            'services = { tts = "tts-espeak", transcribe = "transcribe-sphinx" }\n'
            f'scope = ["{made.inbox}"]\n',
        )
        made.start()
        ready = ("transcribe-sphinx", "tts-espeak")
        wait_for(
            lambda: all(made.condition("binding", one, "Ready").get("status") == "True" for one in ready),
            "both connectors are ready",
            INSTALLED_S,
        )
        made.handler("call", "tts_speak", f"text={SENTENCE}", "output=total.wav", "--agent", "clerk")
        assert (made.inbox / "total.wav").read_bytes()[:4] == b"RIFF"
        told = made.handler("call", "transcribe_audio", "path=total.wav", "--agent", "clerk", "-o", "json")
        text: str = json.loads(told.stdout)["text"]
        return text
