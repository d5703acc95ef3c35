"""Recipes that build, train, validate and save each family of methods."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from sentune.methods.base import GradientMethod
from sentune.training.recipes.base import Recipe, Validator
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
    """Return the recipe of a method or its class."""
    return RECIPES[method.recipe]


def build(
    kind: type[GradientMethod], settings: Any, training: TrainingSettings, encoder: str, seed: int
) -> GradientMethod:
    """Return a new method on the CPU, initialised from ``seed``, in float32 or float64.

    Raises:
        InvalidValue: see ``Recipe.build``.
    """
    torch.manual_seed(seed)
    method = recipe_of(kind).build(partial(kind, settings=settings), training, encoder)
    return method.double() if training.precision == "float64" else method


__all__ = ["RECIPES", "Recipe", "Validator", "build", "recipe_of"]
