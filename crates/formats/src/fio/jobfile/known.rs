//! Which options of fio there are here.

use super::OptionMistake;
use ebbtide_model::near::nearest;
use ebbtide_model::workload::options::{Grammar, OPTIONS, WorkloadOption};
use std::collections::BTreeSet;

/// An option that is accepted and needs no field of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Name of the option in fio.
    pub name: &'static str,
    /// Whether it has a value on fio's command line; of the others it may be left out.
    pub takes_value: bool,
}

const fn switch(name: &'static str) -> Accepted {
    Accepted { name, takes_value: false }
}

const fn valued(name: &'static str) -> Accepted {
    Accepted { name, takes_value: true }
}

/// Options that are not done, with their default in fio: that asks for nothing, and any other value is refused.
pub const AT_DEFAULT: &[(Accepted, &str)] = &[
    (switch("atomic"), "0"),
    (switch("blocksize_unaligned"), "0"),
    (switch("bs_unaligned"), "0"),
    (switch("create_only"), "0"),
    (switch("dedupe_global"), "0"),
    (valued("dedupe_mode"), "repeat"),
    (switch("end_syncfs"), "0"),
    (switch("exitall"), "0"),
    (switch("experimental_verify"), "0"),
    (switch("file_append"), "0"),
    (switch("fill_device"), "0"),
    (switch("fill_fs"), "0"),
    (valued("flow"), "0"),
    (switch("fsync_on_close"), "0"),
    (switch("ignore_zone_limits"), "0"),
    (valued("lockfile"), "none"),
    (valued("max_latency"), "0"),
    (valued("max_open_zones"), "0"),
    (switch("nonvectored"), "0"),
    (switch("nowait"), "0"),
    (valued("number_ios"), "0"),
    (valued("percentage_random"), "0"),
    (switch("pre_read"), "0"),
    (valued("prio"), "0"),
    (switch("rate_ignore_thinktime"), "0"),
    (switch("read_only"), "0"),
    (switch("serialize_overlap"), "0"),
    (switch("stats"), "1"),
    (valued("thinktime_blocks"), "1"),
    (valued("thinktime_spin"), "0"),
    (valued("trim_backlog"), "0"),
    (valued("trim_percentage"), "0"),
    (switch("uncached"), "0"),
    (switch("unlink"), "0"),
    (switch("unlink_each_loop"), "0"),
    (valued("verify_async"), "0"),
    (valued("verify_backlog"), "0"),
    (valued("verify_offset"), "0"),
    (switch("verify_only"), "0"),
    (switch("verify_state_load"), "0"),
    (switch("zero_buffers"), "0"),
    (valued("zonemode"), "none"),
    (valued("zonerange"), "0"),
    (valued("zonesize"), "0"),
    (valued("zoneskip"), "0"),
];

/// Whether what was written is read back: it is, where anything is verified.
pub const DO_VERIFY: Accepted = switch("do_verify");

/// Options that change nothing here.
pub const WITHOUT_EFFECT: &[Accepted] = &[
    // For people and the terminal.
    valued("description"),
    valued("eta"),
    // The clones of a job are always reported together, every job on its own, reads and writes apart.
    switch("group_reporting"),
    switch("new_group"),
    valued("unified_rw_reporting"),
    // Every operation is timed, percentiles are always there, and every figure has its unit.
    switch("gtod_reduce"),
    switch("clat_percentiles"),
    switch("lat_percentiles"),
    valued("unit_base"),
    // Jobs are always threads.
    switch("thread"),
    // fio takes it for the same.
    switch("threads"),
    // One generator, whose seed is that of the run; random offsets may always repeat.
    switch("randrepeat"),
    switch("allrandrepeat"),
    valued("random_generator"),
    switch("norandommap"),
    switch("softrandommap"),
    // Written data never repeats and never compresses, but where that is asked for.
    switch("scramble_buffers"),
    // Files and buffers are registered with the ring where the kernel can.
    switch("registerfiles"),
    switch("fixedbufs"),
    // All files of a job are open as long as it runs.
    valued("openfiles"),
    // Every block that is not as it was written is told, with what is wrong with it.
    switch("verify_fatal"),
    switch("verify_dump"),
    // Batches adapt to the load.
    valued("iodepth_batch"),
    valued("iodepth_batch_submit"),
    valued("iodepth_batch_complete"),
    valued("iodepth_batch_complete_min"),
    valued("iodepth_batch_complete_max"),
    // Files are made in full before the first job, allocated where the file system can.
    valued("fallocate"),
    switch("create_on_open"),
    switch("overwrite"),
];

/// Options that change what fio prints, what it logs, or how it prepares, and nothing here: accepted, and named once.
pub const ONLY_TOLD: &[Accepted] = &[
    valued("disk_util"),
    switch("disable_lat"),
    switch("disable_clat"),
    switch("disable_slat"),
    switch("disable_bw_measurement"),
    switch("disable_bw"),
    switch("slat_percentiles"),
    switch("block_error_percentiles"),
    valued("percentile_list"),
    valued("significant_figures"),
    valued("bwavgtime"),
    valued("iopsavgtime"),
    valued("write_bw_log"),
    valued("write_lat_log"),
    valued("write_iops_log"),
    valued("write_hist_log"),
    valued("log_avg_msec"),
    valued("log_hist_msec"),
    valued("log_hist_coarseness"),
    valued("log_max_value"),
    valued("log_window_value"),
    valued("log_entries"),
    switch("log_offset"),
    switch("log_prio"),
    switch("log_issue_time"),
    valued("log_compression"),
    switch("log_store_compressed"),
    switch("log_unix_epoch"),
    switch("log_alternate_epoch"),
    switch("per_job_logs"),
    valued("fadvise_hint"),
    valued("clocksource"),
    valued("gtod_cpu"),
    switch("create_serialize"),
    switch("create_fsync"),
    switch("exitall_on_error"),
    switch("allow_file_create"),
    switch("allow_mounted_write"),
    valued("iomem_align"),
    valued("mem_align"),
    switch("userspace_reap"),
    valued("force_async"),
];

/// Options that people use and that are refused, with what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("blocksize_range", "a range of block sizes is not done; write bssplit, with the sizes that are meant"),
    ("bs_unaligned", "blocks are always aligned"),
    ("percentage_random", "a job is sequential or random; write two"),
    ("verify_backlog", "what is written is read back when all of it is"),
    ("verify_only", "`ebb verify LEDGER` reads back what the ledger of an earlier run says"),
    ("verify_pattern", "blocks carry their place, the number of their write and a CRC-32C"),
    ("verify_state_load", "`ebb verify LEDGER` reads back what the ledger of an earlier run says"),
    ("iodepth_low", "the queue is always kept full"),
    ("number_ios", "write io_size, the bytes of them all"),
    ("opendir", "name each file"),
    ("zonemode", "zones are not done"),
    ("exec_prerun", "no programs are run; run it before"),
    ("exec_postrun", "no programs are run; run it afterwards"),
];

/// Options that are honoured and say nothing of the workload.
pub(super) const BESIDE: &[&str] = &[
    "name",
    "filename",
    "directory",
    "stonewall",
    "wait_for",
    "wait_for_previous",
    "randseed",
    "kb_base",
    "verify",
    "do_verify",
    "nrfiles",
    "file_service_type",
];

/// Checksums of fio's that a job may ask for; here it is always a CRC-32C, beside the place and the number of the write.
const CHECKSUMS: &[&str] = &[
    "crc32c",
    "crc32c-intel",
    "crc32",
    "crc16",
    "crc7",
    "crc64",
    "md5",
    "meta",
    "sha1",
    "sha256",
    "sha512",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "xxhash",
];

/// What fio's `verify` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verify {
    /// Nothing: `0` and `none` are fio's words for that.
    No,
    /// That what is written is read back; and what the reader must know of it.
    Yes(Option<String>),
}

/// What fio's word `method` asks for.
///
/// # Errors
/// When it is none of fio's.
pub fn verify(method: &str) -> Result<Verify, OptionMistake> {
    match method {
        "0" | "none" => Ok(Verify::No),
        "crc32c" | "crc32c-intel" => Ok(Verify::Yes(None)),
        method if CHECKSUMS.contains(&method) => Ok(Verify::Yes(Some(format!(
            "verify={method}: blocks carry their place, the number of their write and a CRC-32C"
        )))),
        other => {
            let words = "0, crc32c, md5, sha256, xxhash, meta";
            Err(OptionMistake::Word { found: other.to_owned(), words })
        }
    }
}

/// The option of a workload that is called `name`.
pub(super) fn option(name: &str) -> Option<&'static WorkloadOption> {
    let is_in = |option: &&WorkloadOption| option.is_in(Grammar::JobFile);
    OPTIONS.iter().filter(is_in).find(|option| option.names().any(|known| known == name))
}

/// The name of every option that is honoured.
pub(super) fn honoured() -> impl Iterator<Item = &'static str> {
    let options = OPTIONS.iter().filter(|option| option.is_in(Grammar::JobFile));
    BESIDE.iter().copied().chain(options.flat_map(WorkloadOption::names))
}

/// Whether `name` is accepted because it changes nothing here.
pub fn without_effect(name: &str) -> bool {
    WITHOUT_EFFECT.iter().chain(ONLY_TOLD).any(|option| option.name == name)
}

/// That these options do nothing here, where there are any.
pub fn only_told(names: &[&str]) -> Option<String> {
    let told: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| ONLY_TOLD.iter().any(|option| option.name == *name))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let change = match told.as_slice() {
        [] => return None,
        [_] => "changes",
        _ => "change",
    };
    let names = told.join(", ");
    Some(format!(
        "{names} {change} nothing here: every operation is timed, no logs are written, and --json has what each interval showed"
    ))
}

/// Judges the option `name`, which is not done: at its default in fio it asks for nothing.
///
/// # Errors
/// What to write instead.
pub(super) fn not_done(name: &str, value: Option<&str>) -> Result<(), OptionMistake> {
    let default = AT_DEFAULT.iter().find(|(option, _)| option.name == name).map(|(_, default)| *default);
    if default.is_some_and(|default| value.map_or("1", str::trim) == default) {
        return Ok(());
    }
    if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(OptionMistake::NotDone(instead));
    }
    Err(default.map_or_else(|| unknown(name), OptionMistake::OnlyDefault))
}

/// What to say of a name that is in no list.
pub(super) fn unknown(name: &str) -> OptionMistake {
    let known = honoured().chain(WITHOUT_EFFECT.iter().chain(ONLY_TOLD).map(|option| option.name));
    nearest(name, known).map_or(OptionMistake::Unlisted, OptionMistake::Misspelt)
}
