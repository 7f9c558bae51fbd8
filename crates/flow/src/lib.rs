//! TCP-like byte flows over the streams of one association.
