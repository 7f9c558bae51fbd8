// What a path scheduler for manypath sees, in C. `docs/simulation.md` describes it; build with scripts/wasm.
#ifndef MANYPATH_SCHEDULER_H
#define MANYPATH_SCHEDULER_H

#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(#name))) name

enum { MAX_PATHS = 32 };

struct path {
    uint64_t srtt;        // ns; 0: not measured
    uint64_t rttvar;      // ns
    uint64_t min_rtt;     // ns; 0: not measured
    uint64_t cwnd;        // bytes
    uint64_t in_flight;   // bytes
    uint64_t chunk_limit; // bytes
    uint64_t has_window;  // 1 if the congestion window has room, or 0
    uint64_t number;
};

// Written before each call. Paths are sorted: the smallest srtt first, those that were never measured last.
static struct {
    uint64_t now;      // ns since the start of the endpoint
    uint64_t left;     // bytes that wait
    uint64_t sendable; // of them, what the peer's window takes
    uint64_t window;   // bytes that may be outstanding in all
    struct path path[MAX_PATHS];
} view_;

void *EXPORT(view)(void) { return &view_; }

#endif
