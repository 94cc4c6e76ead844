"""Posteriors of eight people at once: what takes one person a chain of roots and divisions takes eight no longer.

All arrays are (…, LANES), a person to a lane; none sees another's numbers. See ``posterior_rounds``, which asks for all of it.
"""

import math

from commonground.compiled import subkernel
from commonground.statistics.kernels.lanes import (
    LANES,
    divide,
    inverse_root,
    item,
    larger,
    load,
    multiply,
    multiply_add,
    splat,
    store,
    subtract,
    subtract_product,
)
from commonground.statistics.kernels.person import FAST
from commonground.statistics.kernels.posterior import LEAST_NOISE


@subkernel(fastmath=FAST, error_model="numpy", forceinline=True)
def _at(matrix, size, a, b):
    """The lanes of entry (a, b) of a symmetric matrix that has the lower half only."""
    return load(matrix, (max(a, b) * size + min(a, b)) * LANES)


@subkernel(fastmath=FAST, error_model="numpy")
def _inverse_factor(A, q, T):
    """T with TᵀT = A⁻¹, lower triangular, of (q, q) matrices A by their lower halves, which are overwritten by Cholesky's.

    Where a pivot is not positive, T is not finite.
    """
    for c in range(q):
        pivot = load(A, (c * q + c) * LANES)
        for b in range(c):
            pivot = subtract_product(pivot, load(A, (c * q + b) * LANES), load(A, (c * q + b) * LANES))
        inverse = inverse_root(pivot)
        for a in range(c + 1, q):
            s = load(A, (a * q + c) * LANES)
            for b in range(c):
                s = subtract_product(s, load(A, (a * q + b) * LANES), load(A, (c * q + b) * LANES))
            store(A, (a * q + c) * LANES, multiply(s, inverse))
        for b in range(c):
            s = splat(0.0)
            for a in range(b, c):
                s = subtract_product(s, load(A, (c * q + a) * LANES), load(T, (a * q + b) * LANES))
            store(T, (c * q + b) * LANES, multiply(s, inverse))
        store(T, (c * q + c) * LANES, inverse)


@subkernel(fastmath=FAST, error_model="numpy")
def posteriors(G, q, L, noise, M, A, T, inverse, xi, facts):
    """ξ = (s² + WᵀW)⁻¹ Wᵀρ for W = Z L, that inverse, and two facts: rows' worth that her part takes, Σ(ρ − Wξ)².

    G (q + 1, q + 1): the Gram matrices of (Z, ρ). M (q + 1, q), A, T: room.
    """
    for c in range(q + 1):
        for b in range(q):
            s = splat(0.0)
            for e in range(b, q):
                s = multiply_add(splat(item(L, e * q + b)), _at(G, q + 1, c, e), s)
            store(M, (c * q + b) * LANES, s)
    largest = splat(q * noise)
    for c in range(q):
        for b in range(c + 1):
            s = splat(noise if b == c else 0.0)
            for e in range(c, q):
                s = multiply_add(splat(item(L, e * q + c)), load(M, (e * q + b) * LANES), s)
            store(A, (c * q + b) * LANES, s)
        largest = multiply_add(splat(1.0), subtract(load(A, (c * q + c) * LANES), splat(noise)), largest)
    # Beside huge rows the noise would be lost to rounding, and with it whoever has them.
    more = larger(subtract(multiply(splat(LEAST_NOISE), largest), splat(noise)), splat(0.0))
    for c in range(q):
        store(A, (c * q + c) * LANES, multiply_add(splat(1.0), more, load(A, (c * q + c) * LANES)))
    _inverse_factor(A, q, T)
    used, explained = splat(0.0), splat(0.0)
    for a in range(q):
        s = splat(0.0)
        for b in range(q):
            entry = splat(0.0)
            for c in range(max(a, b), q):
                entry = multiply_add(load(T, (c * q + a) * LANES), load(T, (c * q + b) * LANES), entry)
            store(inverse, (a * q + b) * LANES, entry)
        for c in range(a, q):
            along = splat(0.0)
            for b in range(c + 1):
                along = multiply_add(load(T, (c * q + b) * LANES), load(M, (q * q + b) * LANES), along)
            s = multiply_add(load(T, (c * q + a) * LANES), along, s)
        store(xi, a * LANES, s)
        used = subtract_product(
            multiply_add(splat(1.0), used, splat(1.0)), splat(noise), load(inverse, (a * q + a) * LANES)
        )
        noise_and_more = multiply_add(splat(1.0), more, splat(noise))
        explained = multiply_add(s, multiply_add(noise_and_more, s, load(M, (q * q + a) * LANES)), explained)
    store(facts, 0, used)
    store(facts, LANES, subtract(_at(G, q + 1, q, q), explained))


@subkernel(fastmath=FAST, error_model="numpy")
def moments_of(q, noise, inverse, xi, facts, A, T, H, moments):
    """Everybody's halves of ξξᵀ, H and H² for H = 1 − s²(…)⁻¹, off-diagonals times √2; ξ, and places for two more.

    ``facts[2]`` and on, for ``people_of_chunk``: the trace of H, and what is finite if H + 1/q is positive.
    """
    half, at, trace = q * (q + 1) // 2, 0, splat(0.0)
    for a in range(q):
        for b in range(q):
            one = 1.0 if a == b else 0.0
            h = subtract_product(splat(one), splat(noise), load(inverse, (a * q + b) * LANES))
            store(H, (a * q + b) * LANES, h)
            store(A, (a * q + b) * LANES, multiply_add(splat(1.0), h, splat(one / q)))
        trace = multiply_add(splat(1.0), load(H, (a * q + a) * LANES), trace)
    _inverse_factor(A, q, T)
    positive = splat(0.0)
    for a in range(q):
        positive = multiply_add(splat(1.0), load(T, (a * q + a) * LANES), positive)
    store(facts, 2 * LANES, trace)
    store(facts, 3 * LANES, positive)
    for a in range(q):
        store(moments, (3 * half + a) * LANES, load(xi, a * LANES))
        for b in range(a, q):
            root, square = splat(1.0 if a == b else math.sqrt(2.0)), splat(0.0)
            for c in range(q):
                square = multiply_add(load(H, (a * q + c) * LANES), load(H, (c * q + b) * LANES), square)
            store(moments, at * LANES, multiply(root, multiply(load(xi, a * LANES), load(xi, b * LANES))))
            store(moments, (half + at) * LANES, multiply(root, load(H, (a * q + b) * LANES)))
            store(moments, (2 * half + at) * LANES, multiply(root, square))
            at += 1


@subkernel(fastmath=FAST, error_model="numpy")
def heads_and_doubts(q, own, L, noise, inverse, xi, N, h, doubt, facts):
    """h = Lξ; doubt (q, q − own) = s² L (…)⁻¹ Lᵀ, without its first column for an own intercept; ``facts[2]`` = E‖v‖²."""
    k, size = q - own, splat(0.0)
    for b in range(q):
        s = splat(0.0)
        for c in range(b + 1):
            s = multiply_add(splat(item(L, b * q + c)), load(xi, c * LANES), s)
        store(h, b * LANES, s)
        for e in range(q):
            s = splat(0.0)
            for c in range(b + 1):
                s = multiply_add(splat(item(L, b * q + c)), load(inverse, (c * q + e) * LANES), s)
            store(N, (b * q + e) * LANES, s)
    for b in range(q):
        for a in range(k):
            s = splat(0.0)
            for e in range(own + a + 1):
                s = multiply_add(splat(noise * item(L, (own + a) * q + e)), load(N, (b * q + e) * LANES), s)
            store(doubt, (b * k + a) * LANES, s)
            if b == own + a:
                size = multiply_add(load(h, b * LANES), load(h, b * LANES), multiply_add(splat(1.0), s, size))
    store(facts, 2 * LANES, size)


@subkernel(fastmath=FAST, error_model="numpy")
def row_factors(G, q, own, of_mean, h, doubt, scale, C):
    """C (q + 1, columns) with the factors of rows (Z, ρ) C: what is left of labels, for w₀; that times v, less doubts, for U.

    For U less their mean over her rows where she has an intercept: what all of them have in common is hers. ``scale``, (LANES,).
    """
    k = q - own
    columns = 1 if of_mean else k
    for a in range(columns):
        for b in range(q):
            s = load(h, b * LANES)
            if not of_mean:
                s = multiply_add(s, load(h, (own + a) * LANES), load(doubt, (b * k + a) * LANES))
            store(C, (b * columns + a) * LANES, multiply(subtract(splat(0.0), s), load(scale, 0)))
        last = splat(1.0) if of_mean else load(h, (own + a) * LANES)
        store(C, (q * columns + a) * LANES, multiply(last, load(scale, 0)))
        if own and not of_mean:
            s = splat(0.0)
            for b in range(q + 1):
                s = multiply_add(load(C, (b * columns + a) * LANES), load(G, b * (q + 1) * LANES), s)
            mean = divide(s, load(G, 0))  # the Gram matrix's first entry are her rows
            store(C, a * LANES, subtract(load(C, a * LANES), mean))
