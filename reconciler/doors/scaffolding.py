"""``handler init``: lays out a configuration that works, with comments that teach and schemas for editors.

Nothing that exists is overwritten: where one of the files is there already, none is written.
"""

import sys
from pathlib import Path

from reconciler.config import schemas
from reconciler.doors import columns, usage

_TEMPLATES = Path(__file__).with_name("scaffold")
_DOTTED = {"gitignore": ".gitignore", "gitattributes": ".gitattributes", "taplo.toml": ".taplo.toml"}


def run(settings: usage.Settings, folder: str) -> int:
    """Write the scaffold below ``folder``; raises ``Stopped`` when one of its files is there."""
    root = Path(folder).expanduser().absolute()
    files = scaffold()
    there = [path for path in files if (root / path).exists() or (root / path).is_symlink()]
    if there:
        raise usage.Stopped(f"{there[0]} is there already: nothing was written to {root}")
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    shown = usage.path_shown(str(root.absolute()), anywhere=True)
    sys.stdout.write("".join(f"{path}\n" for path in sorted(files) if not path.startswith("schemas/")))
    if not settings.quiet:
        count = sum(path.startswith("schemas/") for path in files)
        sys.stderr.write(
            f"{columns.counted(count, 'schema')} for editors lie in {shown}/schemas. Next:\n"
            f"  handler validate {shown}\n"
            f"  handlerd -c {shown}\n"
            f"  mkdir -p ~/documents && cd ~/documents\n"
            f"  handler -c {shown} call ocr_extract path=YOUR-SCAN.pdf --agent reader\n"
        )
    return 0


def scaffold() -> dict[str, str]:
    """Every file of a new configuration by its path."""
    files = {}
    for template in sorted(_TEMPLATES.rglob("*")):
        if template.is_file():
            path = template.relative_to(_TEMPLATES).as_posix()
            files[_DOTTED.get(path, path)] = template.read_text(encoding="utf-8")
    return files | {f"schemas/{name}": text for name, text in schemas.render().items()}
