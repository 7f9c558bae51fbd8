//! Two hosts in namespaces joined by emulated paths.
