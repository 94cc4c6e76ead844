// Arithmetic in the order in which commonground does it (heads/arithmetic.py), so that the numbers are the same.
// Matrices are flat Float64Arrays, row by row.

const FAR = 300;
const NULL = 1e-13;

export const ldexp = (x, e) => { const half = Math.trunc(e / 2); return x * 2 ** half * 2 ** (e - half); };

function exponentOf(x) {
  let e = Math.max(Math.floor(Math.log2(x)) + 1, -1073);
  while (ldexp(x, -e) >= 1) e += 1;
  while (ldexp(x, -e) < 0.5) e -= 1;
  return e;
}

// Divide by a power of two where squares would be too large or too small; null where a number is not finite.
export function rescale(values) {
  let largest = 0;
  for (const x of values) {
    if (!(Math.abs(x) < Infinity)) return null;
    largest = Math.max(largest, Math.abs(x));
  }
  if (largest === 0) return 0;
  const exponent = exponentOf(largest);
  if (Math.abs(exponent) < FAR) return 0;
  for (let i = 0; i < values.length; i += 1) values[i] = ldexp(values[i], -exponent);
  return exponent;
}

// Rows are {n, d, values} or, one-hot, {n, d, items}: the column of each row's one.
export function products(rows, W, k) {
  const { n, d } = rows, out = new Float64Array(n * k);
  for (let i = 0; i < n; i += 1) {
    if (rows.items) {
      for (let a = 0; a < k; a += 1) out[i * k + a] += W[rows.items[i] * k + a];
      continue;
    }
    for (let c = 0; c < d; c += 1) {
      const x = rows.values[i * d + c];
      for (let a = 0; a < k; a += 1) out[i * k + a] += x * W[c * k + a];
    }
  }
  return out;
}

export function scores(rows, coef, intercept) {
  const found = products(rows, coef, 1);
  for (let i = 0; i < found.length; i += 1) found[i] += intercept;
  return found;
}

// Takes the columns' means from A (m, k) and r's from r; returns the latter, with the former in means.
export function centre(A, r, m, k, means) {
  let level = 0;
  for (let i = 0; i < m; i += 1) {
    level += r[i];
    for (let c = 0; c < k; c += 1) means[c] += A[i * k + c];
  }
  level /= m;
  for (let c = 0; c < k; c += 1) means[c] /= m;
  for (let i = 0; i < m; i += 1) {
    r[i] -= level;
    for (let c = 0; c < k; c += 1) A[i * k + c] -= means[c];
  }
  return level;
}

// The lower half of AᵀA.
export function gramOf(A, m, k) {
  const gram = new Float64Array(k * k);
  for (let i = 0; i < m; i += 1) {
    for (let a = 0; a < k; a += 1) {
      const x = A[i * k + a];
      for (let b = 0; b <= a; b += 1) gram[a * k + b] += x * A[i * k + b];
    }
  }
  return gram;
}

// Cholesky's L of gram + ridge, from lower halves; null where there is none.
export function factor(gram, ridge, size) {
  const L = new Float64Array(size * size);
  for (let c = 0; c < size; c += 1) {
    for (let q = c; q < size; q += 1) L[q * size + c] = gram[q * size + c];
    L[c * size + c] += ridge;
    for (let b = 0; b < c; b += 1) {
      const x = L[c * size + b];
      for (let q = c; q < size; q += 1) L[q * size + c] -= L[q * size + b] * x;
    }
    if (!(L[c * size + c] > 0 && L[c * size + c] < Infinity)) return null;
    L[c * size + c] = Math.sqrt(L[c * size + c]);
    for (let q = c + 1; q < size; q += 1) L[q * size + c] /= L[c * size + c];
  }
  return L;
}

export function factorOfAny(gram, ridge, meanEigenvalue, size) {
  let little = NULL * meanEigenvalue;
  for (let trial = 0; trial < 5; trial += 1) {
    const L = factor(gram, ridge + little, size);
    if (L) return L;
    little *= 100;
  }
  return null;
}

export function forward(L, x, size) {
  for (let c = 0; c < size; c += 1) {
    for (let b = 0; b < c; b += 1) x[c] -= L[c * size + b] * x[b];
    x[c] /= L[c * size + c];
  }
}

export function backward(L, x, size) {
  for (let c = size - 1; c >= 0; c -= 1) {
    for (let b = c + 1; b < size; b += 1) x[c] -= L[b * size + c] * x[b];
    x[c] /= L[c * size + c];
  }
}

// Eigenvalues and eigenvectors (columns) of a symmetric matrix, by Jacobi's rotations.
export function eigen(matrix, size) {
  const A = Float64Array.from(matrix), V = new Float64Array(size * size);
  for (let i = 0; i < size; i += 1) V[i * size + i] = 1;
  for (let sweep = 0; sweep < 60; sweep += 1) {
    let off = 0;
    for (let p = 0; p < size; p += 1) for (let q = p + 1; q < size; q += 1) off += A[p * size + q] ** 2;
    if (off === 0) break;
    for (let p = 0; p < size; p += 1) {
      for (let q = p + 1; q < size; q += 1) {
        if (A[p * size + q] === 0) continue;
        const theta = (A[q * size + q] - A[p * size + p]) / (2 * A[p * size + q]);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
        const cos = 1 / Math.sqrt(t * t + 1), sin = t * cos;
        for (let i = 0; i < size; i += 1) {
          const x = A[i * size + p], y = A[i * size + q];
          A[i * size + p] = cos * x - sin * y;
          A[i * size + q] = sin * x + cos * y;
        }
        for (let i = 0; i < size; i += 1) {
          const x = A[p * size + i], y = A[q * size + i];
          A[p * size + i] = cos * x - sin * y;
          A[q * size + i] = sin * x + cos * y;
          const v = V[i * size + p], w = V[i * size + q];
          V[i * size + p] = cos * v - sin * w;
          V[i * size + q] = sin * v + cos * w;
        }
      }
    }
  }
  return { values: Float64Array.from({ length: size }, (_, i) => A[i * size + i]), vectors: V };
}
