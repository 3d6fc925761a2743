// The trainer for one instruction set; see products.inc, norms.inc and network.inc.
#include "network.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,fma")
#endif
#define LANES 16
#define REGISTERS 32
namespace coterie {
#include "products.inc"
#include "norms.inc"
#include "network.inc"
Engine* make_avx512(const std::vector<Stage>& stages) { return new NetworkOf(stages); }
}  // namespace coterie
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
namespace coterie {
Engine* make_avx512(const std::vector<Stage>&) { return nullptr; }
}  // namespace coterie
#endif
