//! Tests in QEMU guests with real kernels. `cargo xtask lab` runs them: a minute or two with KVM, some more with
//! software emulation.
#![allow(clippy::unwrap_used)]

mod guests;
mod layouts;
mod pattern;
mod usage;
