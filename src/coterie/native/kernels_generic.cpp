// The trainer for one instruction set; see products.inc and network.inc.
#include "network.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#define LANES 4
namespace coterie {
#include "products.inc"
#include "network.inc"
Engine* make_generic(const std::vector<Stage>& stages) { return new NetworkOf(stages); }
}  // namespace coterie
