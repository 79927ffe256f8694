"""Every problem of ``[source]``: the exact words, and that each mend mends."""

import pytest

from tests.admission import build
from tests.admission.table import Bad, check

FILE = "handler.toml"
OUTSIDE = "write the absolute path, or '~/…', of a file outside of it"


def settings(text: str) -> build.Files:
    return {FILE: f"[source]\n{text}"}


BAD = [
    Bad(
        "S301",
        settings("verify = 'signed'\nallowedSigners = '/etc/signers'\n"),
        FILE,
        "source.verify",
        "source.verify = 'signed' needs source.mode = 'commit'",
        "write mode = 'commit' beside it",
        (FILE, "verify", "mode = 'commit'\nverify"),
    ),
    Bad(
        "S302",
        settings("mode = 'commit'\nverify = 'signed'\n"),
        FILE,
        "source.verify",
        "source.verify = 'signed' needs source.allowedSigners",
        "name a file of allowed signers (ssh-keygen(1)), like '~/.config/handler-ai/allowed_signers'",
        settings(
            "mode = 'commit'\nverify = 'signed'\nallowedSigners = '~/.config/handler-ai/allowed_signers'\n"
        ),
    ),
    *(
        Bad(
            "S303",
            settings(f"allowedSigners = '{path}'\n"),
            FILE,
            "source.allowedSigners",
            f"'{path}' {what}",
            OUTSIDE,
            settings("allowedSigners = '/etc/handler/signers'\n"),
        )
        for path, what in {
            "signers": "is no absolute path",
            "../signers": "is no absolute path",
            "/etc/../home/ada/config/signers": "is no absolute path",
            "~ada/signers": "is no absolute path",
            "~/config/signers": "lies inside the configuration, or in its state",
            "/home/ada/config/keys/signers": "lies inside the configuration, or in its state",
            "/run/h/signers": "lies inside the configuration, or in its state",
        }.items()
    ),
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_gate_that_cannot_stand_is_said_and_its_mend_mends(bad: Bad) -> None:
    if bad.code == "S301":
        mended = settings("mode = 'commit'\nverify = 'signed'\nallowedSigners = '/etc/signers'\n")
        assert not build.errors(build.judge(mended))
        bad = Bad(bad.code, bad.config, bad.file, bad.path, bad.what, bad.mend)
    check(bad)


@pytest.mark.parametrize(
    "text",
    [
        "mode = 'commit'\n",
        "mode = 'commit'\nref = 'v1'\n",
        "mode = 'commit'\nverify = 'signed'\nallowedSigners = '~/.config/signers'\n",
        "allowedSigners = '/home/ada/configuration'\n",
    ],
)
def test_every_other_source_is_admitted_without_a_word(text: str) -> None:
    assert build.judge(settings(text)).problems == ()
