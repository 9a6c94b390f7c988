"""Real coding agents as processes, with a scripted model on loopback: what the tests of hooks and plugins drive.

`programs.py` has the pinned programs, `script.py` what the model is to answer, `model.py` the model's server, `apis/`
the wire formats of its clients. `recorder.py` records and answers hooks. `process.py` is a running agent; `claude.py`,
`codex.py` and `others.py` know how each client is started. The fixtures are in `tests/agents/conftest.py`.
"""
