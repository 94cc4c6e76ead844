// Heads for yes-or-no labels (logistic) and for labels with outliers (Huber's loss), by Newton's steps (heads/convex.py).
import { backward, factor, forward, products } from "./linear.js";

const STEPS = 12, LOGISTIC_RIDGE = 0.5, RIDGE = 1e-6, HUBER_CORNER = 1.345 * 1.4826;

const median = (values) => {
  const sorted = Float64Array.from(values).sort(), half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};

const shareOfYes = (score) => 1 / (1 + Math.exp(Math.min(Math.max(-score, -700), 700)));
// As in statistics/kernels/convex_head.py.
const LOSSES = {
  logistic: {
    coded: (y) => (y > 0 ? 1 : -1), ridge: () => LOGISTIC_RIDGE, cornerAmong: () => Infinity,
    pull: (label, score) => label / (1 + Math.exp(Math.min(label * score, 700))),
    curvature: (label, score) => Math.max(shareOfYes(score) * (1 - shareOfYes(score)), 1e-3),
  },
  huber: {
    coded: (y) => y, ridge: (m) => RIDGE * m,
    cornerAmong: (labels, score) => HUBER_CORNER * median(score.map((s, i) => Math.abs(labels[i] - s))) + 1e-300,
    pull: (label, score, corner) => Math.min(Math.max(label - score, -corner), corner),
    curvature: (label, score, corner) => Math.min(1, corner / Math.max(Math.abs(label - score), 1e-300)),
  },
};
export const knowsLoss = (name) => Object.hasOwn(LOSSES, name);

export function convexHead(board, rows, given, name) {
  const { k } = board, m = rows.n, one = board.fit_intercept ? 1 : 0, size = k + one, loss = LOSSES[name];
  const nothing = { weights: new Float64Array(k), intercept: 0 };
  const A = products(rows, board.embedding, k), shared = products(rows, board.mean, 1);
  const offset = shared.map((x) => x + board.intercept);
  const labels = Float64Array.from(given, (y) => loss.coded(y));
  let trace = 0;
  for (const x of A) trace += x * x;
  if (!(trace > 0 && trace < Infinity)) return nothing;
  const ridge = (loss.ridge(m) * trace) / (m * k);
  const v = new Float64Array(k), score = Float64Array.from(offset);
  let intercept = 0, corner = Infinity;
  for (let pass = 0; pass < STEPS; pass += 1) {
    const hessian = new Float64Array(size * size), step = new Float64Array(size);
    for (let i = 0; i < m; i += 1) {
      const curvature = loss.curvature(labels[i], score[i], corner), pull = loss.pull(labels[i], score[i], corner);
      for (let a = 0; a < size; a += 1) {
        const left = a < k ? A[i * k + a] : 1;
        step[a] += left * pull;
        for (let b = 0; b <= a; b += 1) hessian[a * size + b] += curvature * left * (b < k ? A[i * k + b] : 1);
      }
    }
    for (let a = 0; a < size; a += 1) {
      if (a < k) step[a] -= ridge * v[a];
      hessian[a * size + a] += a < k ? ridge : 1e-9 * m;
    }
    const L = factor(hessian, 0, size);
    if (!L) return nothing;
    forward(L, step, size);
    backward(L, step, size);
    for (let a = 0; a < k; a += 1) v[a] += step[a];
    if (one) intercept += step[k];
    for (let i = 0; i < m; i += 1) {
      score[i] = offset[i] + intercept;
      for (let a = 0; a < k; a += 1) score[i] += A[i * k + a] * v[a];
    }
    corner = loss.cornerAmong(labels, score);
  }
  return Number.isFinite(v.reduce((sum, x) => sum + x, 0) + intercept) ? { weights: v, intercept } : nothing;
}
