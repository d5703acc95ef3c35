"""How each family of methods is built, trained, judged and kept."""

from __future__ import annotations

from sentune.methods.base import GradientMethod
from sentune.training.recipes.base import Recipe, Validates, build
from sentune.training.recipes.intersent import IntersentRecipe
from sentune.training.recipes.invertible import InvertibleRecipe
from sentune.training.recipes.sentences import Sentences

RECIPES: dict[str, Recipe] = {
    "sentences": Sentences(),
    "intersent": IntersentRecipe(),
    "invertible": InvertibleRecipe(),
}


def recipe_of(method: GradientMethod | type[GradientMethod]) -> Recipe:
    """Return the recipe that a method names."""
    return RECIPES[method.recipe]


__all__ = ["RECIPES", "Recipe", "Validates", "build", "recipe_of"]
