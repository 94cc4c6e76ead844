"""Learning across data owners (P4): shared coefficients, and each owner's own beside them."""
