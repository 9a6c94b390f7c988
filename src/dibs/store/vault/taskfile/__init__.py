"""An item as a markdown file."""
