// Posterior heads: the released prior of people's own parts, weighed against her own rows (heads/posterior.py).
//
// Her labels, less the shared prediction, are r = Z h + e with h ~ N(0, S), e ~ N(0, s²). With S = R Rᵀ and W = Z R it is h = R ξ, where
// ξ has the mean (s² + WᵀW)⁻¹ Wᵀr and the covariance s² (s² + WᵀW)⁻¹. Her own residuals correct s², and all the more in intervals.
import { backward, eigen, factor, forward, products } from "./linear.js";

const NOISE_ROWS = 100; // rows that the common noise counts for against her own residuals
const INTERVAL_ROWS = 4; // the same in intervals
const USUAL = 3, MEAN_ROWS = 4; // see surprise
const MOST_STEPS = 40, LONGEST_STEP = 3, AT_REST = 1e-9, FARTHEST = 40; // of Newton's, for yes-or-no labels

function inverseFrom(L, q) {
  const inverse = new Float64Array(q * q), column = new Float64Array(q);
  for (let c = 0; c < q; c += 1) {
    column.fill(0);
    column[c] = 1;
    forward(L, column, q);
    backward(L, column, q);
    for (let a = 0; a < q; a += 1) inverse[a * q + c] = column[a];
  }
  return inverse;
}

// {xi, doubt, variance}: ξ's mean, the (q, q) covariance of its error, and the variance of her labels about her model.
function posterior(W, r, m, q, noise) {
  let own = noise, inverse = null, xi = null, squares = 0, used = 0;
  for (let pass = 0; pass < 4; pass += 1) {
    const gram = new Float64Array(q * q);
    for (let c = 0; c < q; c += 1) gram[c * q + c] = own;
    for (let i = 0; i < m; i += 1) {
      for (let c = 0; c < q; c += 1) for (let b = 0; b <= c; b += 1) gram[c * q + b] += W[i * q + c] * W[i * q + b];
    }
    const L = factor(gram, 0, q);
    if (!L) return null;
    inverse = inverseFrom(L, q);
    xi = new Float64Array(q);
    for (let i = 0; i < m; i += 1) for (let c = 0; c < q; c += 1) xi[c] += W[i * q + c] * r[i];
    forward(L, xi, q);
    backward(L, xi, q);
    squares = 0;
    used = 0;
    for (let i = 0; i < m; i += 1) {
      let missed = r[i];
      for (let c = 0; c < q; c += 1) {
        missed -= W[i * q + c] * xi[c];
        for (let b = 0; b < q; b += 1) used += W[i * q + c] * inverse[c * q + b] * W[i * q + b];
      }
      squares += missed * missed;
    }
    own = (NOISE_ROWS * noise + squares + own * used) / (NOISE_ROWS + m);
  }
  if (!(own < Infinity && xi.every((x) => Math.abs(x) < Infinity))) return null;
  const free = Math.max(m - used, 0), told = INTERVAL_ROWS + free;
  const variance = ((INTERVAL_ROWS * noise + squares) / told) * ((told * told) / (told * told - 2 * free));
  const doubt = inverse.map((x) => variance * x); // less (variance − own) own inverse²
  for (let a = 0; a < q; a += 1) {
    for (let c = 0; c < q; c += 1) {
      for (let b = 0; b < q; b += 1) doubt[a * q + c] -= (variance - own) * own * inverse[a * q + b] * inverse[b * q + c];
    }
  }
  return { xi, doubt, variance };
}

// The posterior of yes-or-no labels (yes: above zero) of log-odds offset + W ξ: mode and Laplace's covariance of ξ ~ N(0, 1).
function logisticPosterior(W, offsets, labels, m, q) {
  const xi = new Float64Array(q), r = new Float64Array(m), V = new Float64Array(m * q);
  let inverse = null;
  for (let step = 0; step < MOST_STEPS; step += 1) {
    const gram = new Float64Array(q * q);
    for (let i = 0; i < m; i += 1) {
      let score = offsets[i];
      for (let c = 0; c < q; c += 1) score += W[i * q + c] * xi[c];
      const p = 1 / (1 + Math.exp(-Math.min(Math.max(score, -FARTHEST), FARTHEST)));
      r[i] = (labels[i] > 0 ? 1 : 0) - p;
      for (let c = 0; c < q; c += 1) V[i * q + c] = Math.sqrt(p * (1 - p)) * W[i * q + c];
    }
    for (let c = 0; c < q; c += 1) gram[c * q + c] = 1;
    for (let i = 0; i < m; i += 1) {
      for (let c = 0; c < q; c += 1) for (let b = 0; b <= c; b += 1) gram[c * q + b] += V[i * q + c] * V[i * q + b];
    }
    const L = factor(gram, 0, q);
    if (!L) return null;
    inverse = inverseFrom(L, q);
    if (step === MOST_STEPS - 1) break;
    const g = xi.map((x) => -x), change = new Float64Array(q);
    for (let c = 0; c < q; c += 1) for (let i = 0; i < m; i += 1) g[c] += W[i * q + c] * r[i];
    for (let c = 0; c < q; c += 1) for (let b = 0; b < q; b += 1) change[c] += inverse[c * q + b] * g[b];
    let longest = 0, moved = 0;
    for (let i = 0; i < m; i += 1) {
      let along = 0;
      for (let c = 0; c < q; c += 1) along += W[i * q + c] * change[c];
      longest = Math.max(longest, Math.abs(along));
    }
    const shorter = Math.min(1, LONGEST_STEP / Math.max(longest, 1e-300));
    for (let c = 0; c < q; c += 1) {
      xi[c] += shorter * change[c];
      moved = Math.max(moved, Math.abs(change[c]));
    }
    if (!(moved < Infinity)) return null;
    if (moved < AT_REST) break;
  }
  return { xi, doubt: inverse, variance: 0 };
}

// A root of S: S = root rootᵀ. Cholesky's where there is one, else by eigenvectors; what is not positive counts as nothing.
function rootOf(S, q) {
  const L = factor(S, 0, q);
  if (L) return L;
  const { values, vectors } = eigen(S, q), root = new Float64Array(q * q);
  for (let a = 0; a < q; a += 1) for (let c = 0; c < q; c += 1) root[a * q + c] = vectors[a * q + c] * Math.sqrt(Math.max(values[c], 0));
  return root;
}

// The variance that the prior of her intercept lacks to explain the mean of her residuals; 0 where it is a usual one.
function surprise(W, r, m, q, noise) {
  let mean = 0, squares = 0;
  for (let i = 0; i < m; i += 1) mean += r[i] / m;
  for (let i = 0; i < m; i += 1) squares += (r[i] - mean) ** 2;
  let expected = Math.max((MEAN_ROWS * noise + squares) / (MEAN_ROWS + m - 1), squares / (m - 1)) / m;
  for (let c = 0; c < q; c += 1) {
    let along = 0;
    for (let i = 0; i < m; i += 1) along += W[i * q + c] / m;
    expected += along * along;
  }
  const lacking = mean * mean - USUAL * USUAL * expected;
  return lacking > 0 && lacking < Infinity ? lacking : 0;
}

// A (rows, q) matrix with one more column.
function withColumn(A, rows, q, column) {
  const wider = new Float64Array(rows * (q + 1));
  for (let i = 0; i < rows; i += 1) {
    for (let c = 0; c < q; c += 1) wider[i * (q + 1) + c] = A[i * q + c];
    wider[i * (q + 1) + q] = column(i);
  }
  return wider;
}

// {weights, intercept, covariance, noise}: her part, the (q, q) covariance of its error, and the noise of her labels.
export function posteriorHead(board, rows, labels) {
  const { k } = board, one = board.fit_intercept ? 1 : 0, q = k + one, m = rows.n;
  let root = rootOf(board.spread, q);
  const coordinates = products(rows, board.embedding, k), shared = products(rows, board.mean, 1);
  let W = new Float64Array(m * q);
  const r = new Float64Array(m), offsets = shared.map((x) => x + board.intercept);
  for (let i = 0; i < m; i += 1) {
    r[i] = labels[i] - offsets[i];
    for (let c = 0; c < q; c += 1) {
      for (let b = 0; b < q; b += 1) W[i * q + c] += (b < one ? 1 : coordinates[i * k + b - one]) * root[b * q + c];
    }
  }
  const lacking = one && m > 1 && !board.logOdds ? surprise(W, r, m, q, board.noise) : 0;
  let size = q;
  if (lacking) {
    size = q + 1;
    W = withColumn(W, m, q, () => Math.sqrt(lacking));
    root = withColumn(root, q, q, (a) => (a === 0 ? Math.sqrt(lacking) : 0));
  }
  const found = board.logOdds ? logisticPosterior(W, offsets, labels, m, size) : posterior(W, r, m, size, board.noise);
  const xi = found ? found.xi : new Float64Array(size);
  const part = new Float64Array(q), covariance = new Float64Array(q * q);
  const known = found ? size : q; // without a posterior, the prior alone
  for (let a = 0; a < q; a += 1) {
    for (let c = 0; c < known; c += 1) part[a] += root[a * size + c] * xi[c];
    for (let b = 0; b < q; b += 1) {
      for (let c = 0; c < known; c += 1) {
        for (let e = 0; e < known; e += 1) {
          const middle = found ? found.doubt[c * size + e] : c === e ? 1 : 0;
          covariance[a * q + b] += root[a * size + c] * middle * root[b * size + e];
        }
      }
    }
  }
  return { weights: part.slice(one), intercept: one ? part[0] : 0, covariance, noise: board.logOdds ? 0 : found ? found.variance : board.noise };
}

// Standard deviations of fresh labels of rows.
export function deviations(board, head, rows) {
  const { k } = board, one = board.fit_intercept ? 1 : 0, q = k + one;
  const coordinates = products(rows, board.embedding, k), found = new Float64Array(rows.n);
  for (let i = 0; i < rows.n; i += 1) {
    const z = (b) => (b < one ? 1 : coordinates[i * k + b - one]);
    let variance = head.noise;
    for (let a = 0; a < q; a += 1) for (let b = 0; b < q; b += 1) variance += z(a) * z(b) * head.covariance[a * q + b];
    found[i] = Math.sqrt(variance);
  }
  return found;
}
