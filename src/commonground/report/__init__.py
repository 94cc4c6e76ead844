"""One page to look at and sign: what a board guarantees, what it cost, what is published; from what is public alone."""
