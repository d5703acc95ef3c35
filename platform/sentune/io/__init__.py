"""Files and object stores: atomic writes, checksums, bounded reads, credentials."""
