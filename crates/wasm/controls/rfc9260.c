// RFC 9260 section 7.2, as the engine's own `congestion = "rfc9260"`: in the simulator both send the same packets.
#include "control.h"

enum { SLOW_START_LIMIT = 64 }; // L of section 7.2.1, as in engine.slow_start_limit

static uint64_t partial_bytes_acked;

static uint64_t max(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void set(uint64_t ssthresh, uint64_t cwnd) {
    view_.ssthresh = ssthresh;
    view_.cwnd = cwnd;
    partial_bytes_acked = 0;
}

static uint64_t half(void) { return max(view_.cwnd / 2, 4 * view_.chunk_limit); }

// Congestion avoidance: a chunk for each window that was acknowledged while it was used up (section 7.2.2).
static void avoid_congestion(void) {
    partial_bytes_acked += view_.acked;
    if (partial_bytes_acked < view_.cwnd) return;
    if (view_.window_used) {
        partial_bytes_acked -= view_.cwnd;
        view_.cwnd += view_.chunk_limit;
    } else {
        partial_bytes_acked = view_.cwnd;
    }
}

void EXPORT(on_ack)(void) {
    if (view_.acked > 0 && view_.advanced && !view_.recovering) {
        if (view_.cwnd > view_.ssthresh) {
            avoid_congestion();
        } else if (view_.window_used) {
            view_.cwnd += min(view_.acked, SLOW_START_LIMIT * view_.chunk_limit);
        }
    }
    if (view_.in_flight == 0) partial_bytes_acked = 0;
}

// Section 7.2.3.
void EXPORT(on_loss)(void) {
    uint64_t ssthresh = half();
    set(ssthresh, ssthresh);
}

void EXPORT(on_timeout)(void) { set(half(), view_.chunk_limit); }

// The window halves once per retransmission timeout (section 7.2.1).
void EXPORT(on_idle)(int timeouts) {
    if (view_.cwnd <= 4 * view_.chunk_limit) return;
    uint64_t decayed = timeouts < 64 ? view_.cwnd >> timeouts : 0;
    set(view_.cwnd, max(decayed, 4 * view_.chunk_limit));
}
