"""The tools of a board for models, over the Model Context Protocol: `dibs mcp` on stdio, and `/mcp` of the server.

Written on the standard library: the official SDK (mcp 2.3) takes 562 ms and 65 MB to its first answer, and every
session of every agent starts a server of its own.
"""
