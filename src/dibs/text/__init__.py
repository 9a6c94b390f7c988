"""How values are written: times, priorities, JSON, the wire format."""
