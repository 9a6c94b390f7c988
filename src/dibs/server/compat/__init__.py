"""The wire formats of other systems, served as their own documents define them."""
