"""Running a server: address, processes, health, metrics, tracing."""
