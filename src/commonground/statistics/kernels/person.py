"""The work of one person in a compiled round, while her rows are in the cache: projections, Gram matrices, gradients.

Written on ``lanes``: eight numbers at a time, on bare pointers. What each function does is one line of NumPy, given in its
docstring; tests compare with exactly that. ``FAST`` leaves out "nnan" and "ninf": a NaN must stay visible to checks. Numba's
cache of compiled code looks at the file of a kernel only: after a change here or in ``lanes.py`` remove ``__pycache__``.
"""

from numba.extending import register_jitable

from commonground.compiled import subkernel
from commonground.statistics.kernels.lanes import (
    LANES,
    doubles,
    inverse_root,
    item,
    load,
    load_first,
    multiply,
    multiply_add,
    prefetch,
    splat,
    store,
    store_halves,
    subtract,
    subtract_product,
    total,
    totals,
    zeros,
)

FAST = {"reassoc", "contract", "arcp", "nsz"}
TINY_RIDGE = 1e-6  # of the Gram matrix's trace: keeps the head of a person with collinear rows finite
LINE_BYTES = 64  # read from memory at a time
LINES_AHEAD = 256  # how early to ask for rows: into the second-level cache, as the first one holds the batch


@register_jitable(inline="always")
def padded(n, multiple):
    """The least multiple that is not below n; plain Python, too."""
    return (n + multiple - 1) // multiple * multiple


@subkernel(fastmath=FAST, error_model="numpy", forceinline=True)
def inner_products(A, a0, a1, a2, a3, centre, B, b0, b1, n):
    """Lanes <a0, b0>, <a1, b0>, <a2, b0>, <a3, b0>, <a0, b1>, … of vectors of length n that begin at these places.

    Vectors of A are taken about a ``centre``; None: about zero.
    """
    s00 = s10 = s20 = s30 = s01 = s11 = s21 = s31 = zeros(A)
    whole = n // LANES * LANES
    for i in range(0, whole, LANES):
        u0, u1 = load(B, b0 + i), load(B, b1 + i)
        x0, x1 = _about(centre, i, load(A, a0 + i)), _about(centre, i, load(A, a1 + i))
        x2, x3 = _about(centre, i, load(A, a2 + i)), _about(centre, i, load(A, a3 + i))
        s00, s10, s20, s30 = add_products(s00, s10, s20, s30, x0, x1, x2, x3, u0)
        s01, s11, s21, s31 = add_products(s01, s11, s21, s31, x0, x1, x2, x3, u1)
    if whole < n:
        rest = n - whole
        u0, u1 = load_first(B, b0 + whole, rest), load_first(B, b1 + whole, rest)
        x0, x1 = load_first(A, a0 + whole, rest), load_first(A, a1 + whole, rest)
        x2, x3 = load_first(A, a2 + whole, rest), load_first(A, a3 + whole, rest)
        x0, x1 = _about(centre, whole, x0), _about(centre, whole, x1)
        x2, x3 = _about(centre, whole, x2), _about(centre, whole, x3)
        s00, s10, s20, s30 = add_products(s00, s10, s20, s30, x0, x1, x2, x3, u0)
        s01, s11, s21, s31 = add_products(s01, s11, s21, s31, x0, x1, x2, x3, u1)
    return totals(s00, s10, s20, s30, s01, s11, s21, s31)


@subkernel(fastmath=FAST, forceinline=True)
def _about(centre, start, x):
    """x less the lanes of a centre, an array of whole LANES whose last ones are zero; or x itself: settled before compiling."""
    if centre is None:
        return x
    return subtract(x, load(centre, start))


@subkernel(fastmath=FAST, forceinline=True)
def add_products(s0, s1, s2, s3, x0, x1, x2, x3, u):
    return multiply_add(x0, u, s0), multiply_add(x1, u, s1), multiply_add(x2, u, s2), multiply_add(x3, u, s3)


@subkernel(fastmath=FAST, error_model="numpy")
def project(X, d, lo, m, centre, W, columns, P, rows, line):
    """P[c, i] = <x_i − centre, W[c]> for the rows of one person, four rows by two columns at a time; columns is even.

    Her last row is repeated to fill up the last four. What P holds behind her rows must not be used.
    """
    last = (lo + m - 1) * d
    for i in range(0, m, 4):
        x0 = (lo + i) * d
        x1, x2, x3 = min(x0 + d, last), min(x0 + 2 * d, last), min(x0 + 3 * d, last)
        for a in range(x0, x0 + 4 * d, line):
            prefetch(X, a + LINES_AHEAD * line)
        for c in range(0, columns, 2):
            s = inner_products(X, x0, x1, x2, x3, centre, W, c * d, (c + 1) * d, d)
            store_halves(P, c * rows + i, (c + 1) * rows + i, s)


@subkernel(fastmath=FAST, error_model="numpy")
def centre_values(values, m):
    """Take one person's mean out of her values: the local intercept, partialled out."""
    s = zeros(values)
    for i in range(0, m, LANES):
        s = multiply_add(splat(1.0), load_first(values, i, min(m - i, LANES)), s)
    mean = splat(total(s) / m)
    for i in range(0, m, LANES):
        store(values, i, subtract_product(load(values, i), splat(1.0), mean))


@subkernel(fastmath=FAST, error_model="numpy")
def gram_of(P, rows, m, k, gram, width):
    """gram[c, b] = <P[c], P[b]> for b ≤ c ≤ k, where P[k] are the labels; other entries are not meant to be used."""
    for c in range(0, k + 1, 2):
        for b in range(0, c + 2, 4):
            at = b * rows
            s = inner_products(P, at, at + rows, at + 2 * rows, at + 3 * rows, None, P, c * rows, (c + 1) * rows, m)
            store_halves(gram, c * width + b, (c + 1) * width + b, s)


@subkernel(fastmath=FAST, error_model="numpy")
def least_squares(G, k, inverse_diagonal, v):
    """v = argmin ‖r − Pᵀv‖² with a tiny ridge by Cholesky, for LANES people side by side.

    G (k + 1, k + 1, LANES) holds their Gram matrices, the last row their right-hand sides. One person's Cholesky is a
    chain of roots and divisions each of which waits for the one before: eight take no longer than one. Rows that say
    nothing have a pivot that is not positive: its inverse root is not finite, and neither is v.
    """
    row = (k + 1) * LANES
    ridge = splat(0.0)
    for c in range(k):
        ridge = multiply_add(splat(TINY_RIDGE), load(G, c * (row + LANES)), ridge)
    for c in range(k):
        pivot = multiply_add(splat(1.0), ridge, load(G, c * (row + LANES)))
        for b in range(c * row, c * (row + LANES), LANES):
            pivot = subtract_product(pivot, load(G, b), load(G, b))
        inverse = inverse_root(pivot)
        store(inverse_diagonal, c * LANES, inverse)
        for q in range(c + 1, k + 1):
            s = load(G, q * row + c * LANES)
            for b in range(0, c * LANES, LANES):
                s = subtract_product(s, load(G, q * row + b), load(G, c * row + b))
            store(G, q * row + c * LANES, multiply(s, inverse))
    for c in range(k - 1, -1, -1):
        s = load(G, k * row + c * LANES)
        for b in range(c + 1, k):
            s = subtract_product(s, load(G, b * row + c * LANES), load(v, b * LANES))
        store(v, c * LANES, multiply(s, load(inverse_diagonal, c * LANES)))


@subkernel(fastmath=FAST, error_model="numpy")
def residuals_of(P, rows, m, k, v, r):
    """r = P[k] − Σ_c v[c] P[c] for one person, one of the lanes of v."""
    for i in range(0, m, LANES):
        s = load(P, k * rows + i)
        for c in range(k):
            s = subtract_product(s, splat(item(v, c * LANES)), load(P, c * rows + i))
        store(r, i, s)


@subkernel(fastmath=FAST, error_model="numpy")
def pull_back(X, d, lo, m, centre, r, g):
    """g = (X − centre)ᵀ r over one person's rows, and ‖g‖² as the result; by blocks of columns whose sums stay in registers."""
    squared = splat(0.0)
    a = 0
    while a + 4 * LANES <= d:
        s0 = s1 = s2 = s3 = zeros(X)
        x = lo * d + a
        for i in range(m):
            f = splat(item(r, i))
            x0, x1 = _about(centre, a, load(X, x)), _about(centre, a + LANES, load(X, x + LANES))
            x2 = _about(centre, a + 2 * LANES, load(X, x + 2 * LANES))
            x3 = _about(centre, a + 3 * LANES, load(X, x + 3 * LANES))
            s0, s1, s2, s3 = add_products(s0, s1, s2, s3, x0, x1, x2, x3, f)
            x += d
        squared = _keep(g, a, s0, _keep(g, a + LANES, s1, squared))
        squared = _keep(g, a + 2 * LANES, s2, _keep(g, a + 3 * LANES, s3, squared))
        a += 4 * LANES
    while a < d:
        s = zeros(X)
        x = lo * d + a
        for i in range(m):
            s = multiply_add(splat(item(r, i)), _about(centre, a, load_first(X, x, min(d - a, LANES))), s)
            x += d
        squared = _keep(g, a, s, squared)
        a += LANES
    return total(squared)


@subkernel(fastmath=FAST, forceinline=True)
def _keep(g, a, s, squared):
    store(g, a, s)
    return multiply_add(doubles(s), doubles(s), squared)


@subkernel(fastmath=FAST, error_model="numpy")
def pull_two_back(X, d, lo, m, centre, r, other_r, g, other_g):
    """g = (X − centre)ᵀ r for two r at once: each row is loaded once, and neither sum waits for the other."""
    a = 0
    while a + 4 * LANES <= d:
        s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = zeros(X)
        x = lo * d + a
        for i in range(m):
            x0, x1 = _about(centre, a, load(X, x)), _about(centre, a + LANES, load(X, x + LANES))
            x2 = _about(centre, a + 2 * LANES, load(X, x + 2 * LANES))
            x3 = _about(centre, a + 3 * LANES, load(X, x + 3 * LANES))
            s0, s1, s2, s3 = add_products(s0, s1, s2, s3, x0, x1, x2, x3, splat(item(r, i)))
            t0, t1, t2, t3 = add_products(t0, t1, t2, t3, x0, x1, x2, x3, splat(item(other_r, i)))
            x += d
        _store_four(g, a, s0, s1, s2, s3)
        _store_four(other_g, a, t0, t1, t2, t3)
        a += 4 * LANES
    while a < d:  # two by two; what is behind the end of a row is not read
        s0 = s1 = t0 = t1 = zeros(X)
        x, here, then = lo * d + a, min(d - a, LANES), min(max(d - a - LANES, 0), LANES)
        second = a + LANES if then else a  # there may be no centre that far
        for i in range(m):
            x0, x1 = load_first(X, x, here), load_first(X, x + LANES, then)
            x0, x1 = _about(centre, a, x0), _about(centre, second, x1)
            f, h = splat(item(r, i)), splat(item(other_r, i))
            s0, s1 = multiply_add(x0, f, s0), multiply_add(x1, f, s1)
            t0, t1 = multiply_add(x0, h, t0), multiply_add(x1, h, t1)
            x += d
        store(g, a, s0)
        store(other_g, a, t0)
        if then:
            store(g, a + LANES, s1)
            store(other_g, a + LANES, t1)
        a += 2 * LANES


@subkernel(fastmath=FAST, forceinline=True)
def _store_four(g, a, s0, s1, s2, s3):
    store(g, a, s0)
    store(g, a + LANES, s1)
    store(g, a + 2 * LANES, s2)
    store(g, a + 3 * LANES, s3)
