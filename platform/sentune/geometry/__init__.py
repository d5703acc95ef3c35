"""Geometries of sentence embeddings and the contrastive loss over them. Pure torch."""

from sentune.geometry.base import Geometry
from sentune.geometry.boxes import Boxes
from sentune.geometry.contrastive import TermWeights, contrastive_loss
from sentune.geometry.corners import Corners
from sentune.geometry.gaussians import Gaussians
from sentune.geometry.points import Points

__all__ = ["Boxes", "Corners", "Gaussians", "Geometry", "Points", "TermWeights", "contrastive_loss"]
