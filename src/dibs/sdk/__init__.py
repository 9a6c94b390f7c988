"""What a Python program holds: a session, a claim, their heartbeat, and waiting."""
