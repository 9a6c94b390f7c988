"""Operations on a whole board: checking it, copying it, mirroring it to a file of tasks."""
