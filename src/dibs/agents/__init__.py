"""Coding agents plug in: what the hooks of Claude Code, Codex and other clients do (`dibs hook EVENT`).

A client runs a hook for each event of a session: its start, a prompt, a tool call, its end. `payload` reads what the
client says, `hook` calls the function of the event, `answers` words the reply for that client. The session has a state
folder (`state`) and a keeper (`keeper`): a process that lives as long as the agent's process, renews the claims while
the agent works, and notes in the state folder what the session has lost. Most hooks end in a shell script
(`plugins/dibs/hooks/dibs-hook.sh`) that reads the state folder and starts no Python.

A hook never fails a tool, never waits on a network (except, for seconds, a hook of a task), and prints nothing unless
something was lost or is in use.
"""
