// Everybody's gradient for the shared part: (X_jᵀ r_j) v_jᵀ / (dof_j ‖v_j‖²), the rows read once.
//
// A block takes some whole people at a time, as many as have ROWS rows together. Their rows are copied to shared memory in one
// piece and used from there twice: one thread for each row projects it, one thread for each feature pulls residuals back.
// Heads are solved in between, one thread for each person, in 64 bits. Somebody with more rows than ROWS has a block to herself,
// which goes over her rows in pieces, and reads them a second time.
//
// Compiled for REAL rows and LABEL labels (float or double), D features, K directions, HAS_MEAN, CENTRED, ROWS rows and PEOPLE people at a time,
// THREADS threads, and BLOCKS blocks side by side, with the bounds SMALLEST and LARGEST and the TINY_RIDGE of the processor's kernels;
// device_gradients.py says which. Nothing is added up in an order that could change from run to run.

typedef long long int64;

constexpr int VECTOR = 16 / sizeof(REAL);                              // numbers in one copy
constexpr int STRIDE = D % (2 * VECTOR) == 0 ? D + VECTOR : D;         // of rows, so that threads do not meet in one bank
constexpr int STEP = D % VECTOR == 0 ? VECTOR : D % 2 == 0 ? 2 : 1;    // numbers a thread takes at once
constexpr int N_MOMENTS = K * (K + 1) / 2 + K + (CENTRED ? K + 1 : 0);  // PᵀP, Pᵀy, and the sums of P and y
constexpr int LANES = 8;                                                // threads that add up one person's ‖g‖²


#if K <= 10  // heads are solved in registers
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("unroll 1")
#endif

struct alignas(STEP * sizeof(REAL)) Some { REAL at[STEP]; };

struct alignas(16) Shared {
    REAL rows[ROWS * STRIDE + VECTOR];
    REAL g[PEOPLE * D];
    double moments[PEOPLE][N_MOMENTS];
    double head[PEOPLE][K];
    double height[PEOPLE];  // what a head adds to all of a person's predictions
    double own[ROWS];       // labels less the shared prediction
    REAL P[K][ROWS + 1];    // rows on the embedding
    REAL residual[ROWS];
    int start[PEOPLE + 1];  // of a person's rows, counted from the first of these people's
    unsigned char owner[ROWS];
};
static_assert(sizeof(Shared) <= SHARED_BYTES, "device_gradients.py counts these bytes");

__device__ void copy_vector(REAL* to, const REAL* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
#else
    *reinterpret_cast<int4*>(to) = *reinterpret_cast<const int4*>(from);
#endif
}

__device__ void copies_arrive() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Rows `first` to `first + n` into shared memory; where they begin there.
__device__ const REAL* load_rows(Shared& s, const REAL* X, int64 first, int n) {
    if (STRIDE != D) {
        for (int q = threadIdx.x; q < n * (D / VECTOR); q += THREADS) {
            const int row = q / (D / VECTOR), column = q % (D / VECTOR) * VECTOR;
            copy_vector(s.rows + row * STRIDE + column, X + (first + row) * D + column);
        }
        copies_arrive();
        return s.rows;
    }
    const int before = (int)(first * D % VECTOR);  // copies begin at multiples of 16 bytes
    const REAL* from = X + (first * D - before);
    const int end = before + n * D, whole = end / VECTOR;
    for (int q = threadIdx.x; q < whole; q += THREADS) copy_vector(s.rows + q * VECTOR, from + q * VECTOR);
    for (int q = whole * VECTOR + threadIdx.x; q < end; q += THREADS) s.rows[q] = from[q];
    copies_arrive();
    return s.rows + before;
}

__device__ void project(Shared& s, const REAL* rows, int n, const LABEL* y, const REAL* W, double intercept) {
    for (int i = threadIdx.x; i < n; i += THREADS) {
        REAL along[K + HAS_MEAN] = {};
        const Some* row = reinterpret_cast<const Some*>(rows + i * STRIDE);
#pragma unroll 5
        for (int c = 0; c < D / STEP; c++) {
            const Some x = row[c];
#pragma unroll
            for (int a = 0; a < K + HAS_MEAN; a++) {
                const Some w = reinterpret_cast<const Some*>(W + a * D)[c];
#pragma unroll
                for (int e = 0; e < STEP; e++) along[a] += x.at[e] * w.at[e];
            }
        }
        for (int a = 0; a < K; a++) s.P[a][i] = along[a];
        s.own[i] = (double)y[i] - intercept - (HAS_MEAN ? (double)along[K + HAS_MEAN - 1] : 0.0);
    }
}

// Adds the moments of rows `first` to `first + n` to those of their people: one thread for each person and moment.
__device__ void add_moments(Shared& s, int people, int first, int n) {
    for (int item = threadIdx.x; item < people * N_MOMENTS; item += THREADS) {
        const int p = item / N_MOMENTS, moment = item % N_MOMENTS;
        int a = 0, b = moment;
        while (a < K && b > K - a) b -= K + 1 - a++;  // row a of PᵀP from its diagonal on, then Pᵀy
        const int lo = max(s.start[p] - first, 0), hi = min(s.start[p + 1] - first, n);
        double total = 0.0;
        if (a < K && b < K - a)
            for (int i = lo; i < hi; i++) total += (double)s.P[a][i] * (double)s.P[a + b][i];
        else if (a < K)
            for (int i = lo; i < hi; i++) total += (double)s.P[a][i] * s.own[i];
        else if (b < K)
            for (int i = lo; i < hi; i++) total += (double)s.P[b][i];
        else
            for (int i = lo; i < hi; i++) total += s.own[i];
        s.moments[p][moment] += total;
    }
}

// Least squares with a tiny ridge, by elimination; NaN where a pivot is not positive.
__device__ void solve_head(Shared& s, int p) {
    double A[K][K + 1];
    const double* moment = s.moments[p];
UNROLLED
    for (int a = 0; a < K; a++)
UNROLLED
        for (int b = a; b <= K; b++) A[a][b] = *moment++;
    const double m = s.start[p + 1] - s.start[p];
    if (CENTRED) {
UNROLLED
        for (int a = 0; a < K; a++)
UNROLLED
            for (int b = a; b <= K; b++) A[a][b] -= moment[a] * moment[b] / m;
    }
    double ridge = 0.0;
UNROLLED
    for (int a = 0; a < K; a++) ridge += TINY_RIDGE * A[a][a];
UNROLLED
    for (int a = 0; a < K; a++) A[a][a] += ridge;
    bool solvable = true;
    double inverse[K];  // of the pivots
UNROLLED
    for (int a = 0; a < K; a++) {
        solvable = solvable && A[a][a] > 0.0;
        inverse[a] = 1.0 / A[a][a];
UNROLLED
        for (int b = a + 1; b < K; b++) {
            const double times = A[a][b] * inverse[a];
UNROLLED
            for (int c = b; c <= K; c++) A[b][c] -= times * A[a][c];
        }
    }
    double v[K];
UNROLLED
    for (int a = K - 1; a >= 0; a--) {
        v[a] = A[a][K];
UNROLLED
        for (int b = a + 1; b < K; b++) v[a] -= A[a][b] * v[b];
        v[a] *= inverse[a];
    }
    double height = CENTRED ? moment[K] : 0.0;
UNROLLED
    for (int a = 0; a < K; a++) {
        if (CENTRED) height -= moment[a] * v[a];
        s.head[p][a] = solvable ? v[a] : nan("");
    }
    s.height[p] = CENTRED ? height / m : 0.0;
}

__device__ void find_residuals(Shared& s, int n) {
    for (int i = threadIdx.x; i < n; i += THREADS) {
        const int p = s.owner[i];
        double r = s.own[i] - s.height[p];
#pragma unroll
        for (int a = 0; a < K; a++) r -= (double)s.P[a][i] * s.head[p][a];
        s.residual[i] = (REAL)r;
    }
}

__device__ void pull_back(Shared& s, const REAL* rows, int people, int first, int n) {
    for (int item = threadIdx.x; item < people * D; item += THREADS) {
        const int p = item / D, column = item % D;
        const int lo = max(s.start[p] - first, 0), hi = min(s.start[p + 1] - first, n);
        REAL total = s.g[item];
#pragma unroll 5
        for (int i = lo; i < hi; i++) total += rows[i * STRIDE + column] * s.residual[i];
        s.g[item] = total;
    }
}

__device__ void send(Shared& s, int people, int64 j, REAL* g, double* factors, double* squared) {
    for (int item = threadIdx.x; item < people * D; item += THREADS) g[j * D + item] = s.g[item];
    for (int p = threadIdx.x / LANES; p < (people + 3) / 4 * 4; p += THREADS / LANES) {  // whole warps, for the shuffles
        double gg = 0.0;
        if (p < people)
            for (int c = threadIdx.x % LANES; c < D; c += LANES) gg += (double)s.g[p * D + c] * (double)s.g[p * D + c];
#pragma unroll
        for (int far = LANES / 2; far > 0; far /= 2) gg += __shfl_xor_sync(0xffffffff, gg, far);
        if (p < people && threadIdx.x % LANES == 0) {
            double vv = 0.0;
#pragma unroll
            for (int a = 0; a < K; a++) vv += s.head[p][a] * s.head[p][a];
            const double freedom = s.start[p + 1] - s.start[p] - K - CENTRED, scale = 1.0 / (freedom * vv);
            const bool fit = freedom > 0.0 && vv > SMALLEST && vv < LARGEST && gg > SMALLEST && gg < LARGEST;
            for (int a = 0; a < K; a++) factors[(j + p) * K + a] = s.head[p][a] * scale;
            squared[j + p] = fit ? gg * vv * scale * scale : nan("");
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
person_gradients(const REAL* __restrict__ X, const LABEL* __restrict__ y, const int64* __restrict__ offsets,
                 const REAL* __restrict__ W, double intercept, int64 n_people, int64 people_a_block, REAL* __restrict__ g,
                 double* __restrict__ factors, double* __restrict__ squared) {
    extern __shared__ char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    const int64 last = min((blockIdx.x + 1) * people_a_block, n_people);
    for (int64 j = blockIdx.x * people_a_block; j < last;) {
        const int64 lo = offsets[j], mine = j + 1 + threadIdx.x;
        const bool fits = threadIdx.x < PEOPLE && mine <= last && offsets[mine] - lo <= ROWS;
        const int people = max(__syncthreads_count(fits), 1);  // the first of them, or one who needs several pieces
        const int rows_of_all = (int)(offsets[j + people] - lo);
        for (int p = threadIdx.x; p <= people; p += THREADS) s.start[p] = (int)(offsets[j + p] - lo);
        for (int item = threadIdx.x; item < people * D; item += THREADS) s.g[item] = 0;
        for (int item = threadIdx.x; item < people * N_MOMENTS; item += THREADS) s.moments[item / N_MOMENTS][item % N_MOMENTS] = 0.0;
        const bool in_pieces = rows_of_all > ROWS;
        const REAL* rows = s.rows;
        for (int first = 0; first < rows_of_all; first += ROWS) {
            const int n = min(rows_of_all - first, ROWS);
            rows = load_rows(s, X, lo + first, n);
            __syncthreads();
            project(s, rows, n, y + lo + first, W, intercept);
            __syncthreads();
            add_moments(s, people, first, n);
            __syncthreads();
        }
        if (threadIdx.x < people) {
            solve_head(s, threadIdx.x);
            if (!in_pieces)
                for (int i = s.start[threadIdx.x]; i < s.start[threadIdx.x + 1]; i++) s.owner[i] = threadIdx.x;
        }
        if (in_pieces)
            for (int i = threadIdx.x; i < ROWS; i += THREADS) s.owner[i] = 0;
        __syncthreads();
        for (int first = 0; first < rows_of_all; first += ROWS) {
            const int n = min(rows_of_all - first, ROWS);
            if (in_pieces) {
                rows = load_rows(s, X, lo + first, n);
                __syncthreads();
                project(s, rows, n, y + lo + first, W, intercept);
                __syncthreads();
            }
            find_residuals(s, n);
            __syncthreads();
            pull_back(s, rows, people, first, n);
            __syncthreads();
        }
        send(s, people, j, g, factors, squared);
        j += people;
        __syncthreads();
    }
}

// parts[chunk] = Σ_j weights[j] factors[j] g[j]ᵀ over the people of one chunk; who has weight zero adds nothing, whatever she holds.
extern "C" __global__ void __launch_bounds__(THREADS)
weighted_sum(const REAL* __restrict__ g, const double* __restrict__ factors, const double* __restrict__ weights,
             double* __restrict__ parts, int64 n_people, int64 chunk) {
    constexpr int LINE = 32, SIDE_BY_SIDE = THREADS / LINE;
    __shared__ double gathered[SIDE_BY_SIDE][LINE * STEP];
    const int lane = threadIdx.x % LINE, side = threadIdx.x / LINE, column = (blockIdx.y * LINE + lane) * STEP;
    const int64 last = min((blockIdx.x + 1) * chunk, n_people);
    double total[K][STEP] = {};
    if (column < D) {
#pragma unroll 8
        for (int64 j = blockIdx.x * chunk + side; j < last; j += SIDE_BY_SIDE) {
            const Some values = *reinterpret_cast<const Some*>(g + j * D + column);
            const double weight = weights[j];
#pragma unroll
            for (int a = 0; a < K; a++) {
                const double factor = factors[j * K + a] * weight;
#pragma unroll
                for (int e = 0; e < STEP; e++) total[a][e] += weight == 0.0 ? 0.0 : factor * (double)values.at[e];
            }
        }
    }
    for (int a = 0; a < K; a++) {
        for (int e = 0; e < STEP; e++) gathered[side][lane * STEP + e] = total[a][e];
        __syncthreads();
        for (int c = threadIdx.x; c < LINE * STEP && blockIdx.y * LINE * STEP + c < D; c += THREADS) {
            double sum = 0.0;
            for (int i = 0; i < SIDE_BY_SIDE; i++) sum += gathered[i][c];
            parts[(blockIdx.x * (int64)K + a) * D + blockIdx.y * LINE * STEP + c] = sum;
        }
        __syncthreads();
    }
}

// Z = X columns, one thread for each number: once for a fit, so plain.
extern "C" __global__ void transformed(const REAL* __restrict__ X, const REAL* __restrict__ columns, REAL* __restrict__ Z,
                                       int64 numbers) {
    const int64 at = (int64)blockIdx.x * THREADS + threadIdx.x;
    if (at >= numbers) return;
    const REAL* x = X + at / D * D;
    REAL total = 0;
    for (int a = 0; a < D; a++) total += x[a] * columns[a * D + at % D];
    Z[at] = total;
}
