// BLEST (Ferlin et al., "BLEST: Blocking estimation-based MPTCP scheduler for heterogeneous networks", IFIP Networking
// 2016), as the engine's own `path_scheduling = "blest"`: in the simulator both send the same packets.
#include "scheduler.h"

static uint64_t lambda = 1200; // thousandths
static uint64_t next_update;
static int blocked;

// lambda grows by 4 % while the fast path is held up by the send window, and falls by 1 % otherwise, once per round trip
// of the slow path.
void EXPORT(observe)(int paths) {
    if (paths < 2) return;
    const struct path *fast = &view_.path[0], *slow = &view_.path[1];
    blocked |= view_.sendable == 0 && view_.left > 0 && fast->has_window && slow->in_flight > 0;
    if (view_.now < next_update) return;
    lambda = blocked ? lambda + 40 : lambda - 10;
    if (lambda < 1000) lambda = 1000;
    if (lambda > 1300) lambda = 1300;
    blocked = 0;
    next_update = view_.now + slow->srtt;
}

// A slow path is left out if what the fast one could send during one of its round trips would not find room.
int EXPORT(allows)(int paths, int index) {
    const struct path *fast = &view_.path[0], *slow = &view_.path[index];
    if (index == 0 || fast->srtt == 0 || slow->srtt == 0) return 1;
    uint64_t rounds = (slow->srtt + fast->srtt - 1) / fast->srtt;
    if (rounds > 64) rounds = 64;
    uint64_t by_fast = rounds * (fast->cwnd + (rounds - 1) * fast->chunk_limit / 2);
    uint64_t by_slow = slow->in_flight + slow->chunk_limit;
    uint64_t room = view_.window > by_slow ? view_.window - by_slow : 0;
    return by_fast * lambda / 1000 <= room;
}
