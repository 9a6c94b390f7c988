"""A board of markdown files in folders: the files are the truth, a SQLite board beside them is their index."""
