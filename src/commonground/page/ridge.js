// Ridge heads: her strength chosen on her own rows, or by the board's prior (heads/ridge.py).
import { backward, centre, factor, factorOfAny, forward, gramOf, ldexp, products, rescale } from "./linear.js";
import { Refusal } from "./refusal.js";

const STRENGTHS = [1e-4, 1e-3, 1e-2, 0.1, 0.3, 1, 3, 10, 100, 1e4];
const WORTHWHILE = 0.95;
const PRIOR_ROWS = 4;

function leaveOneOut(K, r, m, baseLeverage, meanEigenvalue) {
  let best = Infinity, chosen = STRENGTHS.at(-1) * meanEigenvalue;
  for (const strength of STRENGTHS) {
    const s = strength * meanEigenvalue, L = factor(K, s, m);
    if (!L) continue;
    const residual = Float64Array.from(r), column = new Float64Array(m);
    forward(L, residual, m);
    backward(L, residual, m);
    let error = 0;
    for (let i = 0; i < m; i += 1) {
      let free = 0;
      for (let c = i; c < m; c += 1) {
        column[c] = c === i ? 1 : 0;
        for (let b = i; b < c; b += 1) column[c] -= L[c * m + b] * column[b];
        column[c] /= L[c * m + c];
        free += column[c] * column[c];
      }
      free = s * free - baseLeverage;
      error += free > 1e-9 ? (s * residual[i] / free) ** 2 : Infinity;
    }
    if (error < best * (best < Infinity ? WORTHWHILE : 1)) { best = error; chosen = s; }
  }
  return chosen;
}

// {v, intercept, ridge} on rows A (m, k) and labels r, both used up; given: the strength, or negative to have it chosen.
export function ridgeOn(A, r, m, k, localIntercept, given, hasPrior, exponent) {
  const v = new Float64Array(k);
  if (m === 0) return { v, intercept: 0, ridge: given };
  const means = new Float64Array(k), one = localIntercept ? 1 : 0;
  let intercept = one ? centre(A, r, m, k, means) : 0;
  let energy = 0;
  for (let i = 0; i < m * k; i += 1) energy += A[i] * A[i];
  if (m - one < 1 || !(energy > 0)) return { v, intercept, ridge: given };
  const dof = m - k - one, meanEigenvalue = energy / k, dual = dof <= 0;
  const size = dual ? m : k;
  let gram;
  if (dual) {
    const turned = new Float64Array(k * m);
    for (let i = 0; i < m; i += 1) for (let c = 0; c < k; c += 1) turned[c * m + i] = A[i * k + c];
    gram = gramOf(turned, k, m);
  } else gram = gramOf(A, m, k);
  const right = new Float64Array(size);
  if (dual) right.set(r.subarray(0, m));
  else for (let i = 0; i < m; i += 1) for (let c = 0; c < k; c += 1) right[c] += A[i * k + c] * r[i];
  let ridge = given;
  if (ridge < 0 && dof > 0) {
    const L = factorOfAny(gram, 0, meanEigenvalue, size);
    if (!L) return { v, intercept, ridge: given };
    v.set(right);
    forward(L, v, k);
    backward(L, v, k);
    let noise = 0, signal = 0;
    for (let i = 0; i < m; i += 1) {
      let residual = r[i];
      for (let c = 0; c < k; c += 1) residual -= A[i * k + c] * v[c];
      noise += residual * residual;
    }
    for (let c = 0; c < k; c += 1) signal += v[c] * v[c];
    ridge = signal > 0 ? (k * (noise / dof)) / signal : meanEigenvalue;
    if (hasPrior) {
      const share = dof / (dof + PRIOR_ROWS);
      ridge = ridge ** share * 2 ** (2 * exponent * (share - 1));
    }
  } else if (ridge < 0 && hasPrior) ridge = ldexp(1, -2 * exponent);
  else if (ridge < 0 && m === 1) ridge = energy;
  else if (ridge < 0) ridge = leaveOneOut(gram, r, m, one ? 1 / m : 0, meanEigenvalue);
  v.fill(0);
  const L = ridge < Infinity ? factorOfAny(gram, ridge, meanEigenvalue, size) : null;
  if (!L) return { v, intercept, ridge };
  forward(L, right, size);
  backward(L, right, size);
  if (dual) for (let i = 0; i < m; i += 1) for (let c = 0; c < k; c += 1) v[c] += A[i * k + c] * right[i];
  else v.set(right);
  for (let c = 0; c < k; c += 1) intercept -= means[c] * v[c];
  return { v, intercept, ridge };
}

// Undo the scales; null where something is not finite.
export function backToScale(v, intercept, rowsExponent, labelsExponent) {
  for (let c = 0; c < v.length; c += 1) v[c] = ldexp(v[c], labelsExponent - rowsExponent);
  const own = ldexp(intercept, labelsExponent);
  return v.every((x) => Math.abs(x) < Infinity) && Math.abs(own) < Infinity ? { v, intercept: own } : null;
}

// The embedding in coordinates in which the prior Λ = L Lᵀ is the identity, and L.
export function inCoordinatesOf(prior, board) {
  const U = Float64Array.from(board.embedding), { d, k } = board;
  if (!prior) return { U, L: null };
  const L = factor(prior, 0, k);
  if (!L) throw new Refusal("The billboard's prior for heads is not a positive definite matrix. Get a fresh copy.");
  for (let c = 0; c < d; c += 1) forward(L, U.subarray(c * k, c * k + k), k);
  return { U, L };
}

// Her rows' coordinates, and what the shared prediction leaves of her labels.
export function seen(board, U, rows, labels) {
  const A = products(rows, U, board.k), shared = products(rows, board.mean, 1);
  return { A, r: Float64Array.from(labels, (y, i) => y - (shared[i] + board.intercept)) };
}

export function ridgeHead(board, rows, labels) {
  const { k } = board, nothing = { weights: new Float64Array(k), intercept: 0 };
  if (k === 0) return nothing;
  const { U, L } = inCoordinatesOf(board.prior, board);
  const { A, r } = seen(board, U, rows, labels);
  const rowsExponent = rescale(A), labelsExponent = rescale(r);
  if (rowsExponent === null || labelsExponent === null) return nothing;
  const { v, intercept } = ridgeOn(A, r, rows.n, k, board.fit_intercept, -1, L !== null, rowsExponent);
  if (L) backward(L, v, k);
  const found = backToScale(v, intercept, rowsExponent, labelsExponent);
  return found ? { weights: found.v, intercept: found.intercept } : nothing;
}

// Longer heads are brought to this norm, which changes no class.
export function shorten(weights, length) {
  const largest = weights.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  if (!(largest > 0 && largest < Infinity)) return;
  let total = 0;
  for (const x of weights) total += (x / largest) ** 2;
  const down = length / largest / Math.sqrt(total);
  if (down < 1) for (let a = 0; a < weights.length; a += 1) weights[a] *= down;
}
