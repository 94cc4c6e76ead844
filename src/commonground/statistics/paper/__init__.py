"""The papers' own statistics, line by line."""
