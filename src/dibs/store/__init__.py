"""Where a board keeps its things: one contract, one folder for each store that fulfils it."""
