//! What was seen around a trial: the devices below the members, the host's CPU and memory, and who
//! else was at work. Everything is optional: an observer fills in what the system lets it see.
//!
//! Device counters are those of Linux's `/proc/diskstats` (Documentation/admin-guide/iostats.rst),
//! as differences over a time span, in bytes and nanoseconds instead of 512-byte sectors and
//! milliseconds.

use super::{Below, GroupLimit, PerOp};
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// What was seen around one trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Observation {
    /// Block devices below the members, each once, in no particular order.
    pub devices: Vec<DeviceObservation>,
    /// What lies below each member, in the order of `TrialSamples::members`.
    pub members: Vec<MemberObservation>,
    /// The trial in intervals; the observer's own intervals, not those of `TrialSamples::series`.
    pub series: Vec<ObservedInterval>,
    /// Each online core over the measurement.
    pub cores: Vec<CoreUse>,
    /// Memory, where it could be read.
    pub memory: Option<MemoryUse>,
    /// Others who were at work on these devices.
    pub others: Vec<OtherActivity>,
    /// Network interfaces, where a member is remote.
    pub network: Vec<NetworkUse>,
    /// What TCP did, where a member is remote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpUse>,
    /// Who else used the processors during the measurement, the busiest first; of a load that is bound to some, the busiest on these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<ProcessorUser>,
    /// Time in which some task waited for a processor during the measurement (`/proc/pressure/cpu`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_waits: Option<Nanos>,
    /// What the load's control group may use of the processors, where that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<GroupQuota>,
    /// The lines with the most interrupts on the core that spent the most time on interrupts, the busiest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<InterruptUse>,
    /// Time in which some task waited for I/O during the measurement, of whatever device (`/proc/pressure/io`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_waits: Option<Nanos>,
    /// What the trial ran on, where the run had built it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built: Option<AsBuilt>,
    /// What other jobs of the same run asked of these devices meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs_beside: Option<JobsBeside>,
}

/// What jobs that ran at the same time as a trial, in the same run, had the trial's disks do during its measurement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobsBeside {
    /// Their names.
    pub names: Vec<String>,
    /// Bytes, at least.
    pub least: PerOp<u64>,
    /// Bytes, at most.
    pub most: PerOp<u64>,
    /// Requests, at most; absent where it is not known how many one operation becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<PerOp<u64>>,
}

/// What a run had built for a trial, as the kernel told it right before the trial and not as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AsBuilt {
    /// Kernel name of the device that trials or the file system use: `md200`.
    pub device: String,
    /// Bytes on one member before the next one's turn, of the outermost array that has such.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Bytes>,
    /// Readahead of the device (`queue/read_ahead_kb`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readahead: Option<Bytes>,
    /// The file system that is mounted, by the kernel's word for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<String>,
    /// The options in force, those that nobody asked for too (`/proc/self/mountinfo`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<String>,
}

/// Somebody else who used the processors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorUser {
    /// Who, for example `cc1plus (pid 4711)`; a kernel thread has the name of its work.
    pub who: String,
    /// CPU time, over all processors.
    pub time: Nanos,
    /// The part of it on the processors that the load is bound to, by where it was last seen to run (`/proc/PID/stat`, field 39);
    /// absent where the load may run on any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Nanos>,
}

/// Interrupts of one line on one core (`/proc/interrupts`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InterruptUse {
    /// The core's place in [`Observation::cores`].
    pub core: usize,
    /// Number of the core, from 0.
    pub cpu: u32,
    /// The line's number, or its name where it has none: `36`, `CAL`.
    pub line: String,
    /// What it is for: `nvme0q3`, `virtio1-req.0`, `Function call interrupts`.
    pub who: String,
    /// Interrupts over the measurement.
    pub count: u64,
    /// Whether it is a line of a member's disk, or of a network interface where a member is remote.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_member: bool,
}

/// One block device over the measurement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceObservation {
    /// Kernel name: `vda`, `nvme1n1p1`, `md0`.
    pub name: String,
    /// Name that people use, where it differs (`vg0-data` for `dm-0`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Device number, "major:minor".
    pub number: String,
    /// What it is made of; absent in sessions that recorded chains ([`MemberObservation::devices`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<Below>,
    /// How it encrypts, where it is a mapping of dm-crypt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// Whether it is a loop device that goes through the page cache of its file (`loop/dio` is 0).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub page_cached: bool,
    /// Counters over the measurement, warm-up excluded.
    pub total: DiskUse,
    /// Largest request that the device takes (`queue/max_sectors_kb`).
    pub max_request: Option<Bytes>,
    /// Readahead (`queue/read_ahead_kb`).
    pub readahead: Option<Bytes>,
    /// I/O scheduler (`queue/scheduler`); absent where there is none to choose, as of what is made of other devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Requests that each of its queues holds (`queue/nr_requests`).
    pub nr_requests: Option<u32>,
    /// Queues to the hardware (entries of `mq`); absent where it has none, as what is made of other devices (md, dm), or nobody
    /// recorded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware_queues: Option<u32>,
    /// Commands that a SCSI disk takes at once (`device/queue_depth`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_depth: Option<u32>,
    /// Whether it spins (`queue/rotational`).
    pub rotational: Option<bool>,
    /// What the load's own control group and those above it let pass to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group_limits: Vec<GroupLimit>,
    /// EBS: time above limits during the measurement, from NVMe log page 0xD0.
    pub exceeded: Option<LimitsExceeded>,
    /// The same from reading to reading, in the order of time; empty where no page could be read twice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exceeded_series: Vec<ExceededInterval>,
}

impl DeviceObservation {
    /// The name to print: the alias where there is one.
    pub fn shown_name(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }
}

/// A mapping of dm-crypt (Documentation/admin-guide/device-mapper/dm-crypt.rst). What only root may see is absent for others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Encryption {
    /// Cipher in dm-crypt's words: `aes-xts-plain64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cipher: Option<String>,
    /// Bytes that are encrypted at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sector: Option<Bytes>,
    /// Its options, without the size of its sectors: `no_read_workqueue`, `same_cpu_crypt`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Whether the processor says that it has instructions for AES.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aes_instructions: Option<bool>,
}

/// `/proc/diskstats` as differences over a time span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskUse {
    /// Requests that completed.
    pub ops: PerOp<u64>,
    /// Requests merged into a neighbour before they were issued.
    pub merged: PerOp<u64>,
    /// Bytes moved (sectors times 512).
    pub bytes: PerOp<u64>,
    /// Time that requests took, summed over requests (`await` is this over `ops`).
    pub time: PerOp<Nanos>,
    /// Requests in flight at the end of the span.
    pub in_flight: u64,
    /// Time with at least one request in flight (`%util` is this over the span).
    pub busy: Nanos,
    /// Requests in flight integrated over time (`aqu-sz` is this over the span).
    pub weighted: Nanos,
    /// Discards completed, where the kernel counts them (4.18).
    pub discards: Option<u64>,
    /// Flushes completed, where the kernel counts them (5.5).
    pub flushes: Option<u64>,
    /// Time that flushes took, summed over flushes, where the kernel counts it (5.5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_time: Option<Nanos>,
}

/// What lies below one member.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberObservation {
    /// Name of the member's volume.
    pub member: String,
    /// Indices into [`Observation::devices`] of all that is below it, upper ones first, each once.
    pub devices: Vec<usize>,
    /// What it is directly on. Absent in sessions that recorded a chain instead of a tree: there the last one of
    /// `devices` is the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<Below>,
    /// The network file system that it is on, where it is on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteUse>,
    /// Bytes of it in the page cache before the trial (`cachestat`, `mincore`).
    pub resident_before: Option<Bytes>,
    /// Bytes of it in the page cache after the trial.
    pub resident_after: Option<Bytes>,
    /// Lowest latency that this member can have for an operation of this size: the 1st percentile at
    /// iodepth 1 with nothing else running and no cache.
    pub floor: Option<Nanos>,
    /// Bytes of the trial's region that had never been touched before the trial (unwritten extents,
    /// blocks of a snapshot not yet fetched).
    pub untouched_before: Option<Bytes>,
}

/// A mounted network file system over the measurement, whoever used it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoteUse {
    /// `nfs`, `nfs4`, `cifs`.
    pub fstype: String,
    /// What is mounted: `server:/export`.
    pub source: String,
    /// Where it is mounted.
    pub mountpoint: String,
    /// Largest bytes of one request (`rsize`, `wsize`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest: Option<PerOp<Bytes>>,
    /// Connections to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Its READ and WRITE calls, where the kernel counts them: NFS does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<PerOp<CallUse>>,
}

/// Remote calls of one kind (`/proc/self/mountstats`, "per-op statistics").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallUse {
    /// Calls that completed.
    pub calls: u64,
    /// Times that a call was sent, the first included.
    pub sent: u64,
    /// Time before they were sent, summed over calls: for a slot, and for the connection.
    pub queued: Nanos,
    /// Time from when they were sent until the answer was there, summed over calls.
    pub round_trip: Nanos,
    /// All of their time, summed over calls.
    pub whole: Nanos,
}

/// One interval as the observer saw it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ObservedInterval {
    /// End of the interval, from the start of the measurement.
    pub end: Nanos,
    /// Each device, in the order of [`Observation::devices`].
    pub devices: Vec<DiskUse>,
    /// Busy time of each core, in the order of [`Observation::cores`].
    pub core_busy: Vec<Nanos>,
}

/// One core (`/proc/stat`) over the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CoreUse {
    /// User and nice time.
    pub user: Nanos,
    /// System, interrupt and soft-interrupt time.
    pub system: Nanos,
    /// The part of `system` that was spent on interrupts and soft interrupts, where it was kept apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<Nanos>,
    /// Idle while I/O was outstanding.
    pub iowait: Nanos,
    /// Time stolen by the hypervisor.
    pub steal: Nanos,
    /// Time with nothing to do and no I/O to wait for.
    pub idle: Nanos,
}

impl CoreUse {
    /// Share of the time in which the core did work for this system, 0 to 1; `None` when nothing was counted.
    pub fn busy_share(&self) -> Option<f64> {
        self.share_of(self.user.plus(self.system))
    }

    /// Share of the time that was spent on interrupts, 0 to 1.
    pub fn interrupt_share(&self) -> Option<f64> {
        self.share_of(self.interrupts?)
    }

    fn share_of(&self, part: Nanos) -> Option<f64> {
        let parts = [self.user, self.system, self.iowait, self.steal, self.idle];
        let all = parts.into_iter().fold(Nanos(0), Nanos::plus);
        (all.0 > 0).then(|| part.0 as f64 / all.0 as f64)
    }
}

/// Memory (`/proc/meminfo`, `/proc/pressure/memory`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryUse {
    /// `MemTotal`.
    pub total: Bytes,
    /// `MemAvailable` before the trial.
    pub available: Bytes,
    /// `Cached` plus `Buffers` before the trial.
    pub page_cache: Bytes,
    /// `Dirty` plus `Writeback` after the trial.
    pub dirty_after: Bytes,
    /// Time in which some task waited for memory during the measurement.
    pub pressure_some: Option<Nanos>,
    /// Time in which all tasks that were not idle waited for memory during the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure_full: Option<Nanos>,
    /// Pages of files that had been in memory, were given up and came back from a disk during the measurement, whoever used
    /// them (`workingset_refault_file` of `/proc/vmstat`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refaulted: Option<Bytes>,
    /// The load's own control group, where it is not the whole host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupMemory>,
}

/// Memory of the control group that the load runs in, over the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupMemory {
    /// Processes in it beside this one when the measurement had ended (version 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<u32>,
    /// Lowest limit of it and of those that it is in: `memory.max` and `memory.high`, `memory.limit_in_bytes` in version 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Times that a limit was met: `max` and `high` of `memory.events`, `memory.failcnt` in version 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<u64>,
    /// Time in which a task of it waited for memory (`memory.pressure`, version 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure_some: Option<Nanos>,
    /// Time in which all tasks of it that were not idle waited for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure_full: Option<Nanos>,
}

/// The lowest quota of processor time of the control group that the load runs in and of those that it is in, over the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupQuota {
    /// Where it is set: `cpu.max`, or `cpu.cfs_quota_us` in version 1.
    pub file: String,
    /// Processor time of all cores that the group may use in a second.
    pub per_second: Nanos,
    /// Time for which it was held back, of all cores (`throttled_usec` of `cpu.stat`, `throttled_time` in version 1).
    pub throttled: Nanos,
}

/// What kind of work somebody else did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherKind {
    /// md resync, recovery, reshape or check.
    Resync,
    /// ext4's lazy initialisation of inode tables.
    LazyInit,
    /// A program, with I/O of its own.
    Process,
    /// The kernel writing back dirty pages that the trial did not make.
    Writeback,
}

/// Somebody else's work during the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OtherActivity {
    /// Which of the kinds.
    pub kind: OtherKind,
    /// Who, for example `dd (pid 4711)` or `md0: resync`.
    pub who: String,
    /// Kernel name of the device it worked on, where known.
    pub device: Option<String>,
    /// Bytes it moved during the measurement, where known.
    pub bytes: Option<PerOp<u64>>,
}

/// A network interface over the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkUse {
    /// Its kernel name, such as `eth0`.
    pub interface: String,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Speed in bits per second, where the driver says it.
    pub speed_bits: Option<u64>,
}

/// What the host's TCP did over the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpUse {
    /// Segments sent, those that were sent again among them.
    pub sent: u64,
    /// Segments sent again, because no acknowledgement came in time.
    pub sent_again: u64,
    /// The connections to other hosts that moved most since the observation began, the busiest first.
    pub connections: Vec<ConnectionUse>,
}

/// A connection to another host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionUse {
    /// Address and port of the other end.
    pub peer: String,
    /// Bytes moved in both directions since the observation began.
    pub bytes: u64,
    /// The smoothed round trip at the end (RFC 6298).
    pub round_trip: Option<Nanos>,
}

/// Time above limits between two readings of an EBS volume's log page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExceededInterval {
    /// The first reading, from the start of the measurement.
    pub start: Nanos,
    /// Instant of the second reading.
    pub end: Nanos,
    /// Time above limits between them.
    pub exceeded: LimitsExceeded,
}

/// Time above limits, as an EBS volume reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsExceeded {
    /// Above the volume's operations per second.
    pub volume_iops: Nanos,
    /// Above the volume's throughput.
    pub volume_throughput: Nanos,
    /// Above the instance's operations per second.
    pub instance_iops: Nanos,
    /// Above the instance's throughput.
    pub instance_throughput: Nanos,
}

impl LimitsExceeded {
    /// What `of` makes of each span.
    pub fn map(&self, of: impl Fn(Nanos) -> Nanos) -> LimitsExceeded {
        self.zip_with(self, |span, _| of(span))
    }

    /// What `of` makes of each span and its counterpart.
    pub fn zip_with(&self, other: &LimitsExceeded, of: impl Fn(Nanos, Nanos) -> Nanos) -> LimitsExceeded {
        LimitsExceeded {
            volume_iops: of(self.volume_iops, other.volume_iops),
            volume_throughput: of(self.volume_throughput, other.volume_throughput),
            instance_iops: of(self.instance_iops, other.instance_iops),
            instance_throughput: of(self.instance_throughput, other.instance_throughput),
        }
    }

    /// The sum of two.
    pub fn plus(&self, more: &LimitsExceeded) -> LimitsExceeded {
        self.zip_with(more, Nanos::plus)
    }
}
