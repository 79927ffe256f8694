"""Where a secret is found: a reference, which stands in files where the secret itself never does."""

from typing import TYPE_CHECKING, Annotated

from reconciler.model.forms import Field
from reconciler.model.records import Record, Seq


class SecretReference(Record):  # noqa: PLW1641 - frozen: pydantic makes its hash
    """Where a secret is found; never the secret. Exactly one of the forms."""

    command: Annotated[Seq[str], Field(min_length=1, examples=[["pass", "show", "vendor/key"]])] | None = None
    """A program and its arguments that print the secret; no shell."""
    file: Annotated[str, Field(min_length=1, max_length=4096, examples=["~/.secrets/key"])] | None = None
    """A file that only its owner can read."""
    env: (
        Annotated[
            str,
            Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="a variable's name", examples=["API_KEY"]),
        ]
        | None
    ) = None
    """A variable of the environment that the controller was started in."""
    keyring: dict[str, str] | str | None = None
    """An entry of the desktop's keyring."""
    systemd: str | None = None
    """A credential of the systemd unit."""
    age: dict[str, str] | str | None = None
    """A file encrypted with age."""
    sops: dict[str, str] | str | None = None
    """A value in a file encrypted with sops."""

    if TYPE_CHECKING:  # a reference equals references alone: never what was found behind one

        def __eq__(self, other: "SecretReference") -> bool: ...  # type: ignore[override]
