"""The trained model: loading, encoding, comparing, interpreting and operating on embeddings."""
