"""SQLite and blobs: rows and bytes by their digest, not what they mean."""
