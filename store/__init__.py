"""Storage in SQLite and blobs: rows, and bytes addressed by digest, independent of their meaning."""
