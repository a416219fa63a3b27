//! The I/O engine.
