// The C interface: networks by handle, one call per client and round. What comes here was checked by the binding; no
// exception leaves: a call that can fail returns a Status.
#include "network.h"

#include <new>
#include <stdexcept>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API
#endif

using namespace coterie;

namespace {

#if defined(__x86_64__)
// Which vectors the processor has, and the system keeps when it changes threads. (__builtin_cpu_supports needs a library
// that clang does not link on Windows.)
struct Vectors {
    bool avx2, avx512;
};
Vectors vectors() {
    unsigned a, b, c, d, kept, high;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return {};
    const bool fma = c >> 12 & 1, tells = c >> 27 & 1;  // whether xgetbv is there
    if (!fma || !tells || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return {};
    asm("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    const auto all = [](unsigned bits, unsigned wanted) { return (bits & wanted) == wanted; };
    const unsigned f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
    return {all(b, 1u << 5) && all(kept, 0x06), all(b, f | dq | bw | vl) && all(kept, 0xe6)};
}
#endif

// Which instruction set to use: the widest that this machine has, unless `wanted` names one (4, 8 or 16 lanes).
Engine* make(const std::vector<Stage>& stages, int wanted) {
#if defined(__x86_64__)
    static const Vectors here = vectors();
    if (here.avx512 && (wanted == 0 || wanted == 16)) return make_avx512(stages);
    if (here.avx2 && (wanted == 0 || wanted == 8)) return make_avx2(stages);
#endif
    return wanted == 0 || wanted == 4 ? make_generic(stages) : nullptr;
}

enum Status : int32_t { DONE = 0, NO_LANES = 1, NO_MEMORY = 2, FAILED = 3 };

template <class Work>
int32_t guarded(Work work) noexcept {
    try {
        work();
        return DONE;
    } catch (const std::bad_alloc&) {
        return NO_MEMORY;
    } catch (const std::length_error&) {  // a vector longer than any memory
        return NO_MEMORY;
    } catch (...) {
        return FAILED;
    }
}

}  // namespace

extern "C" {

// Raised when functions change, so that a binding never calls a library that was built for another.
API int32_t coterie_interface() { return 8; }

// `numbers` holds 14 numbers per stage, in the order of Stage's fields.
API int32_t coterie_network(const double* numbers, int32_t stages, int32_t lanes, void** network) {
    *network = nullptr;
    int32_t status = guarded([&] {
        std::vector<Stage> list;
        for (int32_t l = 0; l < stages; l++) {
            const double* n = numbers + 14 * l;
            const auto whole = [&](int k) { return (int)n[k]; };
            list.push_back({n[0] != 0, whole(1), whole(2), whole(3), whole(4), whole(5), whole(6), n[7] != 0, whole(8), whole(9),
                            whole(10), n[11] != 0, n[12], n[13]});
        }
        *network = make(list, lanes);
    });
    return status == DONE && !*network ? NO_LANES : status;
}

API void coterie_free(void* network) { delete static_cast<Engine*>(network); }

API int64_t coterie_size(void* network) { return (int64_t) static_cast<Engine*>(network)->size(); }

API void coterie_pack(void* network, const float* plain, float* packed) {
    static_cast<Engine*>(network)->pack(plain, packed);
}

API void coterie_unpack(void* network, const float* packed, float* plain) {
    static_cast<Engine*>(network)->unpack(packed, plain);
}

API int32_t coterie_train(void* network, const float* x, int32_t channels_last, const int64_t* y, int64_t count,
                          const Plan* plan, float* packed, Outcome* outcome) {
    return guarded([&] { static_cast<Engine*>(network)->train(x, channels_last != 0, y, count, *plan, packed, *outcome); });
}

API int32_t coterie_logits(void* network, const float* x, int32_t channels_last, int64_t count, const float* packed,
                           float* out) {
    return guarded([&] { static_cast<Engine*>(network)->logits(x, channels_last != 0, count, packed, out); });
}
}
