"""Trained models: loading, encoding, comparison, interpretation and operations on embeddings."""
