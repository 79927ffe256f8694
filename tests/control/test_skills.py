"""Which skills go with an agent's interfaces."""

from pathlib import Path

from reconciler.control import skills
from reconciler.model.names import InterfaceRef


def test_skills_come_from_the_catalogue_and_from_the_configuration(tmp_path: Path) -> None:
    own = tmp_path / "interfaces/weather/v2/skills/weather"
    own.mkdir(parents=True)
    (own / "SKILL.md").write_bytes(b"ask it")
    (tmp_path / "interfaces/weather/v2/skills/huge").mkdir()
    (tmp_path / "interfaces/weather/v2/skills/huge/SKILL.md").write_bytes(b" " * (256 * 1024 + 1))
    found = skills.of(tmp_path, [InterfaceRef("weather", 2), InterfaceRef("ocr", 1), InterfaceRef("no", 1)])
    assert [one.name for one in found] == ["ocr", "weather"]
    assert found[1].text == b"ask it"
    assert found[0].text.startswith(b"---")
