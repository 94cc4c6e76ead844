"""The mathematics of the guarantee: what a set of releases costs, and how much noise a budget asks for."""
