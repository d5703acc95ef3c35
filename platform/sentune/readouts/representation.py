"""The readout of a model that has several encoders: which representation of a sentence is used."""

from __future__ import annotations

from sentune.readouts.grid import Readout

REPRESENTATION = Readout(
    name="representation", grid=("ensemble", "ensemble_scaled", "z_en", "z_de")
)
"""Ensemble of encoder and inverse decoder, as they are or scaled, or one of them."""
