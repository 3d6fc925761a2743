// The trainer for one instruction set; see products.inc, norms.inc and network.inc.
#include "network.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#define LANES 4
#define REGISTERS 16
namespace coterie {
#include "products.inc"
#include "norms.inc"
#include "network.inc"
Engine* make_generic(const std::vector<Stage>& stages) { return new NetworkOf(stages); }
}  // namespace coterie
