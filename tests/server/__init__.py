"""The server: what it promises beyond the verbs themselves."""
