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
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define LANES 8
#define REGISTERS 16
namespace coterie {
#include "products.inc"
#include "norms.inc"
#include "network.inc"
Engine* make_avx2(const std::vector<Stage>& stages) { return new NetworkOf(stages); }
}  // namespace coterie
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
namespace coterie {
Engine* make_avx2(const std::vector<Stage>&) { return nullptr; }
}  // namespace coterie
#endif
