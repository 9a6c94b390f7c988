"""Files on this machine: written durably, trusted or not, and where keys and tokens lie."""
