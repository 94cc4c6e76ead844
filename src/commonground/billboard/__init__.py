"""What is published: the board, its statement, its files, and how others check them."""
