// A scheduler whose decision was learned: a linear gate with the weights that crates/wasm/schedulers/train has found by
// simulating downloads over networks drawn by a seed.
#include "scheduler.h"

#ifndef WEIGHTS
#define WEIGHTS {3, -26, 42, -8, 34}
#endif

static const int64_t weight[] = WEIGHTS;

// Thousandths of `part` in `whole`, at most eight times it.
static int64_t share(uint64_t part, uint64_t whole) {
    if (whole == 0 || part / whole >= 8) return 8000;
    return part * 1000 / whole;
}

// Slower paths carry data while the weighted sum of what is known is not negative.
int EXPORT(allows)(int paths, int index) {
    const struct path *fast = &view_.path[0], *slow = &view_.path[index];
    if (index == 0 || fast->srtt == 0 || slow->srtt == 0) return 1;
    uint64_t in_flight = 0;
    for (int other = 0; other < paths; other++) in_flight += view_.path[other].in_flight;
    const int64_t known[] = {
        1000,
        share(slow->srtt, fast->srtt),          // how much slower it is
        share(in_flight, view_.window),         // how full the windows of the association are
        share(slow->in_flight, slow->cwnd),     // how full its own is
        share(view_.sendable, fast->cwnd),      // for how many windows of the fast path data waits
    };
    int64_t sum = 0;
    for (int each = 0; each < 5; each++) sum += weight[each] * known[each];
    return sum >= 0;
}
