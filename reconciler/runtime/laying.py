"""What an instance needs laid down before it can start: its packages, and the files of its image."""

from collections.abc import Callable
from dataclasses import dataclass

from reconciler.model.recipes import Recipe
from reconciler.runtime.environments import Environments
from reconciler.runtime.images import Images
from reconciler.runtime.objects import Objects


@dataclass(frozen=True, slots=True)
class Store:
    """Where it is laid."""

    objects: Objects
    environments: Environments
    images: Images

    def lacks(self, recipe: Recipe) -> bool:
        """Whether something has to be installed or unpacked first."""
        return bool(
            (recipe.environment and self.environments.path(recipe.environment) is None)
            or (recipe.image and self.images.unpacked(recipe.image) is None)
        )

    async def lay(self, recipe: Recipe, told: Callable[[str], None]) -> None:
        """Install and unpack what is missing; minutes, perhaps. Raises NotBuiltError or OSError."""
        if recipe.image and self.images.unpacked(recipe.image) is None:
            await self.images.unpack(recipe.image)
        if recipe.environment:
            code = self.objects.path(recipe.code)
            lock = (code / "requirements.lock").read_bytes() if code else b""
            await self.environments.build(recipe.environment, lock, told)
