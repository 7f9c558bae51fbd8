//! Deterministic network: links, queues, loss, hosts, captures.
