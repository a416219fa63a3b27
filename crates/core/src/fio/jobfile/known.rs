//! Which options of fio there are here.

/// Options that change nothing here, with the reason.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("group_reporting", "the clones of a job are always reported together"),
    ("new_group", "every job is reported on its own"),
    ("thread", "jobs are always threads"),
    ("description", "for people"),
    ("randrepeat", "the seed decides"),
    ("random_generator", "there is one"),
    ("norandommap", "random offsets may always repeat"),
    ("refill_buffers", "written data never repeats and never compresses"),
    ("scramble_buffers", "written data never repeats and never compresses"),
    ("registerfiles", "files are registered with the ring where the kernel can"),
    ("fixedbufs", "buffers are registered with the ring where the kernel can"),
    ("iodepth_batch", "batches adapt to the load"),
    ("iodepth_batch_submit", "batches adapt to the load"),
    ("iodepth_batch_complete", "batches adapt to the load"),
    ("iodepth_batch_complete_min", "batches adapt to the load"),
    ("iodepth_batch_complete_max", "batches adapt to the load"),
    ("clat_percentiles", "percentiles are always there"),
    ("lat_percentiles", "percentiles are always there"),
    ("gtod_reduce", "every operation is timed all the same"),
    ("unit_base", "every figure has its unit"),
    ("fallocate", "files are allocated in full where the file system can"),
    ("create_on_open", "files are made before the first job"),
    ("overwrite", "files are made in full before the first job"),
    ("eta", "for the terminal"),
    ("unified_rw_reporting", "reads and writes are reported apart"),
];

/// Options that people use and that are refused, with what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("bssplit", "a mix of block sizes is not done; write a job for each"),
    ("blocksize_range", "a range of block sizes is not done; write a job for each"),
    ("bs_unaligned", "blocks are always aligned"),
    ("random_distribution", "random offsets are always uniform"),
    ("percentage_random", "a job is sequential or random; write two"),
    ("verify", "write `ebb bench --verify`, whose writes carry a checksum and are held against a ledger"),
    ("do_verify", "write `ebb bench --verify` instead of verify and do_verify"),
    ("iodepth_low", "the queue is always kept full"),
    ("number_ios", "write io_size, the bytes of them all"),
    ("opendir", "name each file"),
    ("file_service_type", "a job has one file; write a job for each"),
    ("openfiles", "a job has one file; write a job for each"),
    ("zonemode", "zones are not done"),
    ("write_bw_log", "--json has what each interval showed"),
    ("write_lat_log", "--json has what each interval showed"),
    ("write_iops_log", "--json has what each interval showed"),
    ("log_avg_msec", "--json has what each interval showed"),
    ("exec_prerun", "no programs are run; run it before"),
    ("exec_postrun", "no programs are run; run it afterwards"),
];

/// Every option that is honoured, for suggestions.
const HONOURED: &[&str] = &[
    "name",
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "bsrange",
    "size",
    "filesize",
    "io_size",
    "io_limit",
    "filename",
    "directory",
    "iodepth",
    "numjobs",
    "direct",
    "buffered",
    "runtime",
    "timeout",
    "time_based",
    "ramp_time",
    "ioengine",
    "sync",
    "fsync",
    "fdatasync",
    "end_fsync",
    "rate",
    "rate_iops",
    "rate_process",
    "rwmixread",
    "rwmixwrite",
    "thinktime",
    "stonewall",
    "wait_for_previous",
    "randseed",
    "hipri",
    "sqthread_poll",
    "cpus_allowed",
    "nice",
    "offset",
    "kb_base",
    "iomem",
    "mem",
    "nrfiles",
    "loops",
    "startdelay",
    "invalidate",
];

/// Whether `name` is accepted because it changes nothing here.
pub(super) fn without_effect(name: &str) -> bool {
    WITHOUT_EFFECT.iter().any(|(known, _)| *known == name)
}

/// What to say of the option `name`, which is not done.
pub(super) fn unknown(name: &str) -> String {
    if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return format!("this option of fio is not done by ebb: {instead}");
    }
    let known = HONOURED.iter().copied().chain(WITHOUT_EFFECT.iter().map(|(name, _)| *name));
    let close = known
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .min()
        .filter(|(distance, known)| *distance <= 2 && *distance < known.len());
    match close {
        Some((_, known)) => format!("this option is not known; is it `{known}`?"),
        None => "this option of fio is not done by ebb (docs/bench.md lists those that are)".to_owned(),
    }
}
