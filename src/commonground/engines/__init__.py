"""Populations whose rows are not read by this process alone: a GPU, many processes or machines."""
