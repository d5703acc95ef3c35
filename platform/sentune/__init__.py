"""Tunes sentence-embedding methods on a Ray cluster."""

