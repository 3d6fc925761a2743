// The largest eigenvalues of many small symmetric matrices, with their vectors. LAPACK takes longer to begin than such
// a matrix takes: here Householder's reflections make it tridiagonal, then QL steps with Wilkinson's shift diagonal.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API
#endif

namespace {

constexpr int LARGEST = 32;  // as in eigenvectors.py
constexpr int STEPS = 60;    // for one eigenvalue; two or three are usual
constexpr double NEGLIGIBLE = 1e-280;  // of squares, in a matrix whose largest entry is 1

class Decomposition {
public:
    // Returns false if there is none: for numbers that are not finite.
    bool of(const double* matrix, int size) {
        n = size;
        scale = 0.0;
        for (int i = 0; i < n * n; i++) scale = std::isfinite(matrix[i]) ? std::max(scale, std::fabs(matrix[i])) : NAN;
        if (!(scale >= 0.0)) return false;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) a[i][j] = scale > 0.0 ? matrix[i * n + j] / scale : 0.0;
        make_tridiagonal();
        start_vectors();
        for (int first = 0; first < n; first++)
            if (!isolate(first)) return false;
        for (int i = 0; i < n; i++) order[i] = i;
        std::stable_sort(order, order + n, [this](int i, int j) { return d[i] > d[j]; });
        return true;
    }

    // The k-th largest eigenvalue, and an entry of its vector.
    double value(int k) const { return d[order[k]] * scale; }
    double entry(int k, int i) const { return z[order[k]][i]; }

private:
    int n = 0;
    double scale = 0.0;
    double a[LARGEST][LARGEST];  // the matrix; in the end, right of the diagonal, row k is the k-th reflection
    double z[LARGEST][LARGEST];  // in rows, the vectors
    double d[LARGEST], e[LARGEST], beta[LARGEST];
    int order[LARGEST];

    void make_tridiagonal() {
        double w[LARGEST];
        for (int k = 0; k + 2 < n; k++) {
            double* v = a[k];
            double below = 0.0;
            for (int i = k + 1; i < n; i++) v[i] = a[i][k];
            for (int i = k + 2; i < n; i++) below += v[i] * v[i];
            beta[k] = 0.0;
            e[k] = v[k + 1];
            if (below < NEGLIGIBLE) continue;
            e[k] = -std::copysign(std::sqrt(v[k + 1] * v[k + 1] + below), v[k + 1]);
            v[k + 1] -= e[k];
            beta[k] = 2.0 / (v[k + 1] * v[k + 1] + below);
            double along = 0.0;
            for (int i = k + 1; i < n; i++) {
                double product = 0.0;
                for (int j = k + 1; j < n; j++) product += a[i][j] * v[j];
                w[i] = beta[k] * product;
                along += v[i] * w[i];
            }
            for (int i = k + 1; i < n; i++) w[i] -= 0.5 * beta[k] * along * v[i];
            for (int i = k + 1; i < n; i++)
                for (int j = k + 1; j < n; j++) a[i][j] -= v[i] * w[j] + w[i] * v[j];
        }
        if (n > 1) e[n - 2] = a[n - 1][n - 2];
        e[n - 1] = 0.0;
        for (int i = 0; i < n; i++) d[i] = a[i][i];
    }

    void start_vectors() {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) z[i][j] = i == j;
        for (int k = n - 3; k >= 0; k--) {
            if (beta[k] == 0.0) continue;
            const double* v = a[k];
            for (int i = k + 1; i < n; i++) {
                double along = 0.0;
                for (int j = k + 1; j < n; j++) along += z[i][j] * v[j];
                along *= beta[k];
                for (int j = k + 1; j < n; j++) z[i][j] -= along * v[j];
            }
        }
    }

    // Makes the entry beside d[first] negligible.
    bool isolate(int first) {
        for (int step = 0; step <= STEPS; step++) {
            int last = first;
            while (last < n - 1 && !is_negligible(last)) last++;
            if (last == first) return true;
            sweep(first, last);
        }
        return false;
    }

    bool is_negligible(int i) const {
        const double beside = std::fabs(d[i]) + std::fabs(d[i + 1]);
        return std::fabs(e[i]) <= std::numeric_limits<double>::epsilon() * beside || e[i] * e[i] < NEGLIGIBLE;
    }

    // One QL step on the rows from first to last.
    void sweep(int first, int last) {
        double g = (d[first + 1] - d[first]) / (2.0 * e[first]);
        g = d[last] - d[first] + e[first] / (g + std::copysign(std::hypot(g, 1.0), g));
        double s = 1.0, c = 1.0, moved = 0.0;
        for (int i = last - 1; i >= first; i--) {
            const double f = s * e[i], b = c * e[i], r = std::sqrt(f * f + g * g);
            e[i + 1] = r;
            if (r == 0.0) {
                d[i + 1] -= moved;
                e[last] = 0.0;
                return;
            }
            s = f / r;
            c = g / r;
            g = d[i + 1] - moved;
            const double t = (d[i] - g) * s + 2.0 * c * b;
            moved = s * t;
            d[i + 1] = g + moved;
            g = c * t - b;
            double *lower = z[i], *upper = z[i + 1];
            for (int k = 0; k < n; k++) {
                const double x = lower[k], y = upper[k];
                upper[k] = s * x + c * y;
                lower[k] = c * x - s * y;
            }
        }
        d[first] -= moved;
        e[first] = g;
        e[last] = 0.0;
    }
};

}  // namespace

// `matrices` is (count, n, n), `values` becomes (count, p), the largest first, and `vectors` (count, n, p), in columns;
// both are NaN where there are none.
extern "C" API void coterie_leading(const double* matrices, int64_t count, int32_t n, int32_t p, double* values,
                                    double* vectors) {
    Decomposition one;
    for (int64_t m = 0; m < count; m++) {
        const bool found = one.of(matrices + m * n * n, n);
        for (int k = 0; k < p; k++) {
            values[m * p + k] = found ? one.value(k) : NAN;
            for (int i = 0; i < n; i++) vectors[(m * n + i) * p + k] = found ? one.entry(k, i) : NAN;
        }
    }
}
