"""Who maps contributions over the blocks of a table; an engine returns sums only and never sees noise or budget."""
