"""Sessions and claim handles, with real processes on real stores."""
