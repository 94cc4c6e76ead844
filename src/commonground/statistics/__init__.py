"""What one person sends: pure functions of her rows and of public values; no randomness, no budget."""
