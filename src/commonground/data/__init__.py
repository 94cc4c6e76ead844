"""Rows in: who there is, what columns hold, where rows are read from and kept."""
