// What to keep: a head, the shared prediction, or a model of her own rows alone; judged on rows left out in turn (heads/choice.py).
import { ldexp, rescale } from "./linear.js";
import { backToScale, inCoordinatesOf, ridgeOn, seen } from "./ridge.js";

const FOLDS = 5, DOUBTFUL = 10;
const MANY_ROWS = 40;
export const CLEARLY = 8, CLEARLY_WITH_MANY_ROWS = 2;

function leftOut(A, r, m, k, localIntercept, given, hasPrior, exponent) {
  const missed = new Float64Array(m);
  for (let out = 0; out < FOLDS; out += 1) {
    const rows = new Float64Array(m * k), labels = new Float64Array(m);
    let kept = 0;
    for (let i = 0; i < m; i += 1) {
      if (i % FOLDS === out) continue;
      rows.set(A.subarray(i * k, i * k + k), kept * k);
      labels[kept] = r[i];
      kept += 1;
    }
    const found = ridgeOn(rows.subarray(0, kept * k), labels.subarray(0, kept), kept, k, localIntercept, given, hasPrior, exponent);
    for (let i = out; i < m; i += FOLDS) {
      missed[i] = r[i] - found.intercept;
      for (let c = 0; c < k; c += 1) missed[i] -= A[i * k + c] * found.v[c];
    }
  }
  return missed;
}

function meanSquare(values, exponent) {
  let total = 0;
  for (const value of values) {
    const x = exponent !== 0 ? ldexp(value, exponent) : value;
    total += x * x;
  }
  total /= values.length;
  return total < Infinity ? total : Infinity;
}

// {kept: "head", "shared" or "own", missed: the mean square of what it misses on rows left out}; usually: what she keeps unless another
// misses less by a factor of 1 + clearly/√rows; with few rows, of 1 + CLEARLY/√rows.
export function choose(board, prior, rows, labels, usually, fewestRows, clearly) {
  const m = rows.n, { k, d } = board, one = board.fit_intercept;
  if (m < fewestRows) return { kept: usually, missed: Infinity };
  const errors = { head: Infinity, shared: Infinity, own: Infinity };
  const { U } = inCoordinatesOf(prior, board);
  const { A, r } = seen(board, U, rows, labels);
  const rowsExponent = rescale(A), exponent = rescale(r);
  if (exponent !== null) {
    errors.shared = meanSquare(r, 0);
    if (rowsExponent !== null) errors.head = meanSquare(leftOut(A, r, m, k, one, -1, prior !== null, rowsExponent), 0);
  }
  const X = Float64Array.from(rows.values), y = Float64Array.from(labels);
  const finite = rescale(X), ownExponent = rescale(y);
  if (finite !== null && ownExponent !== null) {
    const { ridge } = ridgeOn(X.slice(), y.slice(), m, d, one, -1, false, 0);
    errors.own = meanSquare(leftOut(X, y, m, d, one, ridge, false, 0), ownExponent - (exponent ?? 0));
  }
  let best = "head";
  for (const other of ["shared", "own"]) if (errors[other] < errors[best]) best = other;
  const allowed = errors[usually] / (1 + (m >= MANY_ROWS ? clearly : CLEARLY) / Math.sqrt(m)) / (usually === "own" ? DOUBTFUL : 1);
  const kept = errors[best] < allowed ? best : usually;
  return { kept, missed: ldexp(errors[kept], 2 * (exponent ?? 0)) };
}

// {coef, intercept} of ridge on her own rows alone; null where numbers are too large for it.
export function ownModel(board, rows, labels) {
  const X = Float64Array.from(rows.values), y = Float64Array.from(labels);
  const rowsExponent = rescale(X), labelsExponent = rescale(y);
  if (rowsExponent === null || labelsExponent === null) return null;
  const { v, intercept } = ridgeOn(X, y, rows.n, board.d, board.fit_intercept, -1, false, 0);
  const found = backToScale(v, intercept, rowsExponent, labelsExponent);
  return found && { coef: found.v, intercept: found.intercept };
}
