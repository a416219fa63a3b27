//! The keys of a volume, its shape and its links.

use super::limits::{LatencySpec, LimitOf};
use super::paths::Paths;
use super::read::{Choice, Duration, Fraction, Headed, Named, Size, Throughput, section};
use ebbtide_model::volume::FailureKind;

section! {
    /// A volume, or `count` equal ones. Without `file` and `device` a new file is made for the run and
    /// removed after it.
    #[schemars(rename = "Volume")]
    "a volume"
    struct RawVolume {
        /// How many equal volumes to make: `[volumes.vol]` with `count = 8` gives vol0 to vol7.
        #[schemars(range(min = 1, max = 1024))]
        count: u32,
        /// Usable size, taken down to whole blocks of 4KiB ("10GB" is 9999998976 bytes). Required for new files; for
        /// existing files and devices all of their own size when absent.
        size: Size,
        /// Directory in which the run makes its files [default: the run's own directory].
        directory: String,
        /// An existing file instead of a new one. Written to only with `--destroy`.
        file: String,
        /// A block device instead of a file, best by its stable path below /dev/disk/by-id; several as a list or a range
        /// "/dev/nvme[1..24]n1", which gives vol0 to vol23. "rbd:POOL/IMAGE" is an image of Ceph that the kernel has mapped here.
        /// Written to only with `--destroy`.
        device: Paths,
        /// Stable id (the name below /dev/disk/by-id; of an image of Ceph "rbd:POOL/IMAGE") that the device must have before
        /// anything is written.
        id: String,
        /// Name of the host that its storage is on, with which it is lost; "localhost" is this machine. A replicated design never
        /// has two copies on one.
        host: String,
        /// Type in the catalogue whose speed the volume is given, for example "aws:gp3" (`ebb catalog list`), or
        /// "aws:instance-store" for the instance's own disks.
        r#type: String,
        /// Size of which the catalogue is asked [default: `size`].
        provisioned_size: Size,
        /// Operations per second that are ordered with the type [default: what the type includes].
        provisioned_iops: f64,
        /// Bytes per second that are ordered with the type [default: what the type includes].
        provisioned_throughput: Throughput,
        /// Speed that the volume is given [default: as fast as it is]; with a `type`, what differs from it.
        shape: RawShape,
    }
}

impl Headed for RawVolume {
    const HEADING: &'static str = "volumes";
}

section! {
    /// The speed that a volume is given.
    #[schemars(rename = "Shape")]
    "a shape"
    struct RawShape {
        /// Limit of operations per second, or `{ rate, burst, credits }`.
        iops: LimitOf<f64>,
        /// Limit of bytes per second, or `{ rate, burst, credits }`.
        throughput: LimitOf<Throughput>,
        /// An operation of more bytes than this counts as several against `iops` (EBS on SSD: 256KiB)
        /// [default: every operation counts once].
        io_unit: Size,
        /// Latency of reads and writes beside the limits, or `{ median, p99 }` for a lognormal one [default: 0].
        latency: LatencySpec,
        /// Latency of reads, where it differs.
        read_latency: LatencySpec,
        /// Latency of writes, where it differs.
        write_latency: LatencySpec,
        /// What a flush takes, with which a write is made durable [default: what it takes on the disk underneath].
        flush_latency: LatencySpec,
        /// Name of the link that the volume shares with others.
        link: String,
        /// Operations that continue each other share one `io_unit`, as EBS merges sequential I/O [default: false].
        merge_sequential: bool,
        /// Share of its burst credits that it starts with [default: 100%].
        credits_at_start: Fraction,
        /// Limits that only reads count against, beside those of both.
        reads: RawOneWay,
        /// Limits that only writes count against, beside those of both.
        writes: RawOneWay,
        /// What reads and writes count against the limits, where they differ.
        costs: RawCosts,
        /// A spindle: its seek curve and rotation.
        seek: RawSeek,
        /// A cache at the far end.
        cache: RawCache,
        /// A penalty on the first access to each block.
        first_touch: RawFirstTouch,
        /// States between which it wanders, by name.
        moods: Named<RawMood>,
        /// A slow change on top of the moods.
        drift: RawDrift,
        /// How unlike its siblings it is made.
        birth: RawBirth,
        /// A failure during every trial.
        failure: RawFailure,
    }
}

section! {
    /// A link that several volumes share, as an instance's network to its volumes.
    #[schemars(rename = "Link")]
    "a link"
    struct RawLink {
        /// Limit of operations per second over all its volumes, or `{ rate, burst, credits }`.
        iops: LimitOf<f64>,
        /// Limit of bytes per second over all its volumes, or `{ rate, burst, credits }`.
        throughput: LimitOf<Throughput>,
        /// Limits that only reads count against, beside those of both.
        reads: RawOneWay,
        /// Limits that only writes count against, beside those of both.
        writes: RawOneWay,
    }
}

section! {
    /// Limits of one direction.
    #[schemars(rename = "OneWay")]
    "limits of one direction"
    struct RawOneWay {
        /// Limit of operations per second, or `{ rate, burst, credits }`.
        iops: LimitOf<f64>,
        /// Limit of bytes per second, or `{ rate, burst, credits }`.
        throughput: LimitOf<Throughput>,
    }
}

impl Headed for RawLink {
    const HEADING: &'static str = "links";
}

section! {
    /// What operations count against the limits (an NFS server's accounting).
    #[schemars(rename = "Costs")]
    "the costs"
    struct RawCosts {
        /// What a read counts against `iops` [default: 1].
        read: f64,
        /// What a write counts against `iops` [default: 1].
        write: f64,
        /// A request of fewer bytes counts as this many against `throughput` [default: 1B].
        min_bytes: Size,
        /// A byte written counts as so many against the volume's `throughput` [default: 1].
        write_bytes: f64,
    }
}

section! {
    /// A spindle: one arm, one operation at a time.
    #[schemars(rename = "Seek")]
    "a seek curve"
    struct RawSeek {
        /// Seek to a neighbouring track.
        #[schemars(required)]
        track_to_track: Duration,
        /// Seek over the whole capacity.
        #[schemars(required)]
        full_stroke: Duration,
        /// Rotations per minute, for example 7200.
        #[schemars(required)]
        rpm: f64,
        /// Transfer rate of the medium.
        #[schemars(required)]
        transfer: Throughput,
        /// Capacity over which the arm moves [default: the volume's size].
        capacity: Size,
    }
}

section! {
    /// A cache at the far end. A read hits with the share of the range touched so far that fits into it.
    #[schemars(rename = "Cache")]
    "a cache"
    struct RawCache {
        /// Size of the cache.
        #[schemars(required)]
        size: Size,
        /// Latency of a hit.
        #[schemars(required)]
        latency: LatencySpec,
    }
}

section! {
    /// Blocks that are slow the first time, as after a restore from a snapshot. Every trial starts untouched.
    #[schemars(rename = "FirstTouch")]
    "a first-touch penalty"
    struct RawFirstTouch {
        /// Block that is fetched as a whole [default: 512KiB].
        block: Size,
        /// Latency that the first access to a block pays more.
        #[schemars(required)]
        latency: LatencySpec,
    }
}

section! {
    /// A state that the volume is in for a while.
    #[schemars(rename = "Mood")]
    "a mood"
    struct RawMood {
        /// Mean time that it lasts; the time is exponential.
        #[schemars(required)]
        dwell: Duration,
        /// How often it is entered, relative to the others [default: 1].
        weight: f64,
        /// Factor on the rates of all limits while it lasts [default: 1].
        rate: f64,
        /// Factor on the latency while it lasts [default: 1].
        latency: f64,
    }
}

impl Headed for RawMood {
    const HEADING: &'static str = "moods";
}

section! {
    /// A slow change on top of the moods.
    #[schemars(rename = "Drift")]
    "a drift"
    struct RawDrift {
        /// Standard deviation of the logarithm of the rates' factor: 0.1 is about 10%.
        #[schemars(required)]
        sigma: f64,
        /// Time after which it has forgotten where it was.
        #[schemars(required)]
        timescale: Duration,
    }
}

section! {
    /// How unlike its siblings a volume is made: lognormal factors, drawn once per volume.
    #[schemars(rename = "Birth")]
    "the birth quality"
    struct RawBirth {
        /// Standard deviation of the logarithm of the rates' factor [default: 0].
        rate_sigma: f64,
        /// Standard deviation of the logarithm of the latency's factor [default: 0].
        latency_sigma: f64,
    }
}

section! {
    /// A failure during every trial.
    #[schemars(rename = "Failure")]
    "a failure"
    struct RawFailure {
        /// `error` (EIO), `vanish` (ENODEV) or `freeze` (no answer).
        #[schemars(required)]
        kind: Choice<FailureKind>,
        /// When, from the start of the trial, warm-up included.
        #[schemars(required)]
        at: Duration,
        /// How long it lasts [default: for good].
        lasts: Duration,
    }
}
