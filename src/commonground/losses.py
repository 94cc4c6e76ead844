"""The losses that a head may be fitted by, as everybody writes them: on a board, on a wire, and as numbers in compiled code."""

LOSSES = ("square", "logistic", "huber")
SQUARE, LOGISTIC, HUBER = range(len(LOSSES))
