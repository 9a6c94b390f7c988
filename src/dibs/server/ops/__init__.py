"""Running a server: address, connections, processes, logs, health, metrics, tracing."""
