"""Interpretation embeddings: intersections of a sentence's box with boxes of reference sentences.

GumbelCSE, section 3.2.
"""
