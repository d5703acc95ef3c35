"""Bytes as people read them."""

from __future__ import annotations


def size_of(count: int) -> str:
    """1300000 -> ``1.3 MB``."""
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"
