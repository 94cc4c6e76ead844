"""What releases of (d, d) matrices take, said before the first of them: many dense columns are slow and large."""

import os
import warnings

from commonground.errors import InputError, SizeWarning

BYTES_PER_ENTRY = 34  # peak of a whole fit, measured: 3.4 GB (and 150 s) at 10,000 columns
WARN_ABOVE_BYTES = 2**29  # about 4,000 columns, from where on a fit takes a minute and more


def machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_square_release(n_features: int, side: int, name: str) -> None:
    """Refuse what this machine has no memory for, and warn of what will take long. Depends on public sizes alone."""
    needed = BYTES_PER_ENTRY * side**2
    if needed <= WARN_ABOVE_BYTES:
        return
    message = (
        f"{name} on {n_features:,} dense columns releases a matrix of {side:,} × {side:,} numbers, which takes about "
        f"{needed / 1e9:.1f} GB of memory and minutes (10,000 × 10,000: 3.4 GB, 150 s)"
    )
    advice = (
        "Choose fewer columns (features=); where most entries are zero, pass X as scipy.sparse, or the column of item ids as "
        "item=, whose recipe makes no such matrix."
    )
    if needed > machine_bytes():
        raise InputError(
            f"{message}, more than the {machine_bytes() / 1e9:.1f} GB of this machine. Nothing was released. {advice}"
        )
    warnings.warn(f"{message}. {advice}", SizeWarning, stacklevel=4)
