"""Samplers of trial settings."""
