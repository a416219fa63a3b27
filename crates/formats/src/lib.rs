//! What other programs write and read: fio's job files and JSON, bonnie++'s CSV, logs of iostat, what AWS's command line prints,
//! recorded loads. Everything here is text on
//! one side and the model on the other, as pure functions; what has no dialect of somebody else's does not belong here, and
//! neither does our own language (`ebbtide-experiment`) nor our own output (`ebbtide-report`).

pub mod aws;
pub mod bonnie;
pub mod fio;
pub mod import;
pub mod iostat;
mod pasted;
pub mod trace;
