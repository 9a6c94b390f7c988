"""A vault shared between clones over a git remote."""
