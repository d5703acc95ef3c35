"""How each family of methods is built, trained, judged and kept."""

from __future__ import annotations

from typing import Any

from sentune.methods.base import GradientMethod
from sentune.training.recipes.base import Recipe, Validates, build
from sentune.training.recipes.intersent import IntersentRecipe
from sentune.training.recipes.invertible import InvertibleRecipe
from sentune.training.recipes.sentences import Sentences
from sentune.training.settings import TrainingSettings

RECIPES: dict[str, Recipe] = {
    "sentences": Sentences(),
    "intersent": IntersentRecipe(),
    "invertible": InvertibleRecipe(),
}


def recipe_of(method: GradientMethod | type[GradientMethod]) -> Recipe:
    """Return the recipe that a method names."""
    return RECIPES[method.recipe]


def build_method(
    kind: type[GradientMethod],
    settings: Any,
    training: TrainingSettings,
    encoder: str,
    seed: int,
) -> GradientMethod:
    """Return a new method by the recipe that it names; see ``sentune.training.recipes.base``."""
    return build(recipe_of(kind), kind, settings, training, encoder, seed)


__all__ = ["RECIPES", "Recipe", "Validates", "build_method", "recipe_of"]
