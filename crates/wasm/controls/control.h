// What a congestion control for manypath sees and sets, in C. `docs/simulation.md` describes it; build with
// scripts/wasm.
#ifndef MANYPATH_CONTROL_H
#define MANYPATH_CONTROL_H

#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(#name))) name

// Written before each call; the first three numbers are read after it. Each path has a control, and static data, of
// its own.
static struct {
    uint64_t cwnd;           // bytes; at least a chunk
    uint64_t ssthresh;       // bytes; NO_THRESHOLD before something has set it
    uint64_t pacing_rate;    // bytes/s; 0: none, pacing is as engine.pacing says
    uint64_t now;            // ns since the start of the endpoint: the last time at which the path sent or was acknowledged
    uint64_t initial_window; // bytes
    uint64_t chunk_limit;    // bytes: the largest chunk
    uint64_t in_flight;      // bytes
    uint64_t srtt;           // ns; 0: not measured
    uint64_t min_rtt;        // ns; 0: not measured

    // In on_ack alone, zero elsewhere:
    uint64_t acked;       // bytes newly acknowledged; 0: nothing is in flight any more
    uint64_t rtt;         // ns; 0: not measured
    uint64_t newest;      // number of the latest transmission acknowledged, from 1; 0: ambiguous
    uint64_t sent;        // transmissions of the path so far
    uint64_t advanced;    // 1 if the cumulative acknowledgement of the path advanced, or 0
    uint64_t window_used; // 1 if the window was used up, or 0
    uint64_t recovering;  // 1 in fast recovery, or 0

    // All paths that carry data, for controls that couple them; in on_idle this path alone:
    uint64_t all_cwnd;             // bytes
    uint64_t all_ssthresh;         // bytes
    uint64_t all_rate;             // bytes/s: the sum of cwnd / srtt
    uint64_t all_max_rate_per_rtt; // bytes/s^2: the largest cwnd / srtt^2
} view_;

static const uint64_t NO_THRESHOLD = UINT32_MAX;

void *EXPORT(view)(void) { return &view_; }

#endif
