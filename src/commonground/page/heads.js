// Her model: one entry for each kind of head that this page knows, as heads/kinds.py has them.
import { CLEARLY, CLEARLY_WITH_MANY_ROWS, choose, ownModel } from "./choice.js";
import { convexHead, knowsLoss } from "./convex.js";
import { eigen, scores } from "./linear.js";
import { deviations, posteriorHead } from "./posterior.js";
import { Refusal } from "./refusal.js";
import { ridgeHead, shorten } from "./ridge.js";

// Λ = s² S⁻¹ of heads, whose intercepts come first in S.
function ridgeMatrix(board) {
  const { k } = board, q = k + (board.fit_intercept ? 1 : 0), part = new Float64Array(k * k);
  for (let a = 0; a < k; a += 1) for (let b = 0; b < k; b += 1) part[a * k + b] = board.spread[(q - k + a) * q + q - k + b];
  const { values, vectors } = eigen(part, k);
  const least = 1e-12 * Math.max(Math.max(...values), 1e-300), matrix = new Float64Array(k * k);
  for (let a = 0; a < k; a += 1) {
    for (let b = 0; b < k; b += 1) {
      for (let c = 0; c < k; c += 1) matrix[a * k + b] += (board.noise * vectors[a * k + c] * vectors[b * k + c]) / Math.max(values[c], least);
    }
  }
  return matrix;
}

const KINDS = {
  posterior(board, rows, labels) {
    const head = posteriorHead(board, rows, labels), enough = 2 * (board.d + 1);
    if (!(board.heads.local_choice && !rows.items && !board.logOdds && rows.n >= enough)) return { head, kept: "head" };
    const prior = board.k ? ridgeMatrix(board) : null, usually = board.sharing_pays === false ? "own" : "head";
    return { head, ...choose(board, prior, rows, labels, usually, enough, CLEARLY_WITH_MANY_ROWS) };
  },
  ridge(board, rows, labels) {
    const head = ridgeHead(board, rows, labels);
    if (!(board.heads.local_choice && board.k && !rows.items)) return { head, kept: "head" };
    return { head, ...choose(board, board.prior, rows, labels, board.sharing_pays === false ? "own" : "head", 5, CLEARLY) };
  },
  convex: (board, rows, labels) => ({ head: convexHead(board, rows, labels, board.heads.loss), kept: "head" }),
  signs(board, rows, labels) {
    const head = ridgeHead(board, rows, labels.map((y) => (y > 0 ? 1 : -1)));
    shorten(head.weights, board.heads.head_bound);
    return { head, kept: "head" };
  },
};

export function refuseUnknownKind(board) {
  const { kind, loss } = board.heads;
  if (!(kind in KINDS) || (kind === "convex" && !knowsLoss(loss))) {
    throw new Refusal(`This billboard's models are of the kind “${kind}”${kind === "convex" ? ` by the loss “${loss}”` : ""}, which this page cannot make. Use commonground in Python, or ask for a board of another kind.`);
  }
}

// Dense rows for kinds that know no others.
function dense(rows) {
  if (!rows.items) return rows;
  const values = new Float64Array(rows.n * rows.d);
  rows.items.forEach((item, i) => { values[i * rows.d + item] = 1; });
  return { n: rows.n, d: rows.d, values };
}

// {coef, intercept, weights, kept, deviations}: the last is null where a model does not know how far off it may be.
export function personalize(board, given, labels) {
  refuseUnknownKind(board);
  const rows = board.heads.kind === "convex" ? dense(given) : given;
  const { head, kept, missed } = KINDS[board.heads.kind](board, rows, labels);
  if (kept !== "head") {
    head.weights = new Float64Array(board.k);
    head.intercept = 0;
  }
  const own = kept === "own" ? ownModel(board, rows, labels) : null;
  if (kept !== "head" && head.covariance) { // her errors on rows left out have in them what is not known of what she keeps
    head.covariance.fill(0);
    head.noise = kept === "own" && !own ? Infinity : (missed * rows.n) / Math.max(rows.n - 2, 1);
  }
  const known = head.covariance !== undefined, doubts = {
    posterior: known ? { covariance: [...head.covariance], noise: head.noise } : null,
    deviations: known ? (asked) => deviations(board, head, asked) : null,
  };
  if (own) return { ...own, weights: head.weights, kept, ...doubts };
  const coef = Float64Array.from(board.mean);
  for (let c = 0; c < board.d; c += 1) for (let a = 0; a < board.k; a += 1) coef[c] += board.embedding[c * board.k + a] * head.weights[a];
  return { coef, intercept: board.intercept + head.intercept, weights: head.weights, kept: kept === "own" ? "shared" : kept, ...doubts };
}

// {answers, low, high} for rows: predictions within the label's range, and where a label lies in nine cases of ten.
export function predict(board, model, rows, label) {
  const found = scores(rows, model.coef, model.intercept);
  const within = (x) => (label.range && !board.logOdds ? Math.min(Math.max(x, label.range[0]), label.range[1]) : x);
  const std = model.deviations ? model.deviations(rows) : null;
  const reach = 1.6448536269514722; // of a normal distribution: 5 % lie beyond it on either side
  const answers = found.map(within);
  return {
    answers,
    std,
    low: std ? answers.map((x, i) => within(x - reach * std[i])) : null,
    high: std ? answers.map((x, i) => within(x + reach * std[i])) : null,
  };
}
