"""What estimators, the command line and federations do where nobody says otherwise: said once, here.

Docstrings of estimators are told these values by their signatures (``estimators/docstrings.py``).
"""

MODEL = "fedrep"
RANK = 2  # shared directions
EPSILON, DELTA = 1.0, 1e-6  # of everything that a fit publishes, for each person
FIT_INTERCEPT = True  # everybody has an intercept of her own
SHARED_MEAN = True  # a shared linear model is released first
FEDREP_ROUNDS = 7, 18  # the fewest and the most; how many is decided by what the first have found
ALTMIN_ROUNDS = 16
EVALUATION_EPSILON = 0.1  # of an error on held-out rows
