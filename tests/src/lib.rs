//! Checks of the workspace as a whole live in `tests/`.
