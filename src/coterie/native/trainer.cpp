// The C interface: networks by handle, one call per client and round.
#include "network.h"

#include <memory>

using namespace coterie;

namespace {

// Which instruction set to use: the widest that this machine has, unless `wanted` names one (4, 8 or 16 lanes).
Engine* make(const std::vector<Stage>& stages, int wanted) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512bw");
    bool usual = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (wide && (wanted == 0 || wanted == 16)) return make_avx512(stages);
    if (usual && (wanted == 0 || wanted == 8)) return make_avx2(stages);
#endif
    return wanted == 0 || wanted == 4 ? make_generic(stages) : nullptr;
}

}  // namespace

extern "C" {

// `numbers` holds 11 integers per stage, in the order of Stage's fields. Null: this machine lacks the wanted lanes.
void* coterie_network(const int32_t* numbers, int32_t stages, int32_t lanes) {
    std::vector<Stage> list;
    for (int32_t l = 0; l < stages; l++) {
        const int32_t* n = numbers + 11 * l;
        list.push_back({n[0] != 0, n[1], n[2], n[3], n[4], n[5], n[6], n[7] != 0, n[8], n[9], n[10]});
    }
    return make(list, lanes);
}

void coterie_free(void* network) { delete static_cast<Engine*>(network); }

int64_t coterie_size(void* network) { return (int64_t) static_cast<Engine*>(network)->size(); }

void coterie_pack(void* network, const float* plain, float* packed) { static_cast<Engine*>(network)->pack(plain, packed); }

void coterie_unpack(void* network, const float* packed, float* plain) {
    static_cast<Engine*>(network)->unpack(packed, plain);
}

void coterie_train(void* network, const float* x, int32_t channels_last, const int64_t* y, int64_t count, const Plan* plan,
                   float* packed, Outcome* outcome) {
    static_cast<Engine*>(network)->train(x, channels_last != 0, y, count, *plan, packed, *outcome);
}

void coterie_logits(void* network, const float* x, int32_t channels_last, int64_t count, const float* packed, float* out) {
    static_cast<Engine*>(network)->logits(x, channels_last != 0, count, packed, out);
}
}
