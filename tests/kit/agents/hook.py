"""The program of a recorded hook: sends what it was given to the recorder in the test, and answers as that says.

Run as a script, with nothing but the standard library, outside of any environment.
"""

import json
import os
import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection, connection.makefile("rwb") as file:
    given = {"event": sys.argv[2], "payload": json.load(sys.stdin), "environment": dict(os.environ)}
    file.write(json.dumps(given).encode() + b"\n")
    file.flush()
    answer = json.loads(file.readline())
sys.stdout.write(answer["stdout"])
sys.stderr.write(answer["stderr"])
sys.stdout.flush()
sys.exit(answer["exit"])
