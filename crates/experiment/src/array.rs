//! The keys of an array, of its encryption and of swap spaces.

use super::layouts::{DesignLayout, Over, REPLICATED};
use super::read::{At, Choice, FromToml, Headed, KeySource, Size, section};
use crate::problems::{Problems, Span};
use ebbtide_model::layout::{Arrangement, LayoutName};
use ebbtide_model::stack::{
    Backing, Bitmap, CacheKind, CacheMode, ConsistencyPolicy, EncryptionFormat, Filesystem, Metadata,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::de::DeValue;

section! {
    /// An array of volumes or of other arrays.
    #[schemars(rename = "Array")]
    "an array"
    struct RawArray {
        /// A directory that is there, instead of an array: what is measured is the file system that it is in, as it stands. Beside it only
        /// `size` may stand.
        directory: String,
        /// With `directory`: the file in it that workloads other than programs use [default: 1GiB].
        size: Size,
        #[schemars(description = layouts())]
        layout: Choice<DesignLayout>,
        /// Members in order: a volume's name, a range `vol[0..7]` (both ends included), a glob `vol*`, or a
        /// nested array `{ layout = ..., members = ... }`.
        members: Vec<At<RawMember>>,
        /// Bytes on one member before the next member's turn, a multiple of 4KiB [default: 512KiB, as mdadm].
        chunk: Size,
        /// raid10: copies of every chunk, from 2 to the number of members; replicated: copies of everything, from 2 to the number of
        /// hosts [default: 2].
        copies: u32,
        /// raid10, and replicated where there are more hosts than copies: where the copies go: near, far or offset [default: near;
        /// replicated: offset].
        arrangement: Choice<Arrangement>,
        /// replicated: how the arrays of copies make one: stripe or linear [default: stripe].
        over: Choice<Over>,
        /// What builds it in the kernel: md or lvm [default: md]; replicated: what is over the arrays of copies, which are md's. Other
        /// backends compute the same layout themselves.
        backing: Choice<Backing>,
        /// md: version of the metadata [default: 1.2]. Kernel only.
        metadata: Choice<Metadata>,
        /// md, where the layout is redundant: internal or none [default: none; replicated: internal]. Kernel only.
        bitmap: Choice<Bitmap>,
        /// md mirror: members that are read only when the others fail, a name, range or glob [default: none; replicated: those on
        /// other hosts, of mirrors that have one on "localhost"]. Kernel only.
        write_mostly: String,
        /// md raid5 without a bitmap: how parity is made right after a crash: resync or ppl [default: resync]. Kernel only.
        consistency_policy: Choice<ConsistencyPolicy>,
        /// md raid5 and raid6: pages of each member that are held to be put together [default: the kernel's, 256]. Kernel only.
        #[schemars(range(min = 17, max = 32768))]
        stripe_cache_size: u32,
        /// md raid5 and raid6: threads beside the array's own that compute and write [default: the kernel's, 0]. Kernel only.
        #[schemars(range(max = 8192))]
        group_thread_cnt: u32,
        /// Fast volumes as a cache in front of the whole design's array, which is LVM's. Kernel only.
        cache: RawCache,
        /// Encryption of the whole design. Kernel only.
        encryption: RawEncryption,
        /// File system in which trials use a file [default: none, they use the array itself]. Kernel only.
        filesystem: Choice<Filesystem>,
        /// Mount options, as `mount -o` takes them. Kernel only.
        mount_options: String,
        /// Readahead of the array, a multiple of 4KiB [default: the kernel's]. Kernel only.
        readahead: Size,
        /// I/O scheduler of the members' disks [default: as it is]. Kernel only.
        scheduler: String,
        /// Requests that the queue of each member's disk holds (nr_requests) [default: as it is]. Kernel only.
        #[schemars(range(min = 4))]
        queue_depth: u32,
        /// Largest request to each member's disk (max_sectors_kb) [default: as it is]. Kernel only.
        max_sectors: Size,
        /// Swap spaces that are on while trials run, each on volumes of its own. Kernel only.
        swap: Vec<At<RawSwap>>,
    }
}

/// The key `layout` in the schema.
fn layouts() -> String {
    let each = LayoutName::ALL.iter().map(|layout| format!("{} ({})", layout.name(), layout.facts().what));
    let replicated = format!("{REPLICATED} (copies on different hosts, of a whole design)");
    format!(
        "How the members are combined: {}.",
        each.chain(std::iter::once(replicated)).collect::<Vec<_>>().join(", ")
    )
}

impl Headed for RawArray {
    const HEADING: &'static str = "designs";
}

/// One element of `members`.
#[derive(Debug)]
pub(super) enum RawMember {
    /// A name, range or glob.
    Names(String),
    /// An array as a member of another.
    Array(Box<RawArray>),
}

impl FromToml for RawMember {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        match value {
            DeValue::String(text) => Some(RawMember::Names(text.to_string())),
            DeValue::Table(_) => {
                RawArray::from_toml(value, span, problems).map(|array| RawMember::Array(Box::new(array)))
            }
            _ => {
                let remedy =
                    "write for example \"vol0\", \"vol[0..7]\" or { layout = \"mirror\", members = [...] }";
                problems.wrong_type(span, "a volume's name or a nested array", value, remedy);
                None
            }
        }
    }
}

impl JsonSchema for RawMember {
    fn schema_name() -> Cow<'static, str> {
        "Member".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let array = generator.subschema_for::<RawArray>();
        json_schema!({
            "anyOf": [{ "type": "string", "description": "A name, a range vol[0..7] or a glob vol*" }, array]
        })
    }
}

impl FromToml for Vec<At<RawMember>> {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let DeValue::Array(values) = value {
            return Some(values.iter().map(|value| At::read(value, problems)).collect());
        }
        let remedy = match value {
            DeValue::String(text) => format!("write it in brackets: `[\"{text}\"]`"),
            _ => "write for example `[\"vol0\", \"vol1\"]` or `[\"vol[0..7]\"]`".to_owned(),
        };
        problems.wrong_type(span, "a list of members", value, remedy);
        None
    }
}

section! {
    /// A cache of LVM's in front of an array.
    #[schemars(rename = "DesignCache")]
    "`cache`"
    struct RawCache {
        /// Volumes whose room it takes: names, ranges, globs.
        #[schemars(required)]
        members: Vec<At<RawMember>>,
        /// cache (what is read and written often) or writecache (writes alone, written back later).
        #[schemars(required)]
        kind: Choice<CacheKind>,
        /// cache: writethrough (nothing is lost with the cache's disk) or writeback (the file system is) [default: writethrough].
        mode: Choice<CacheMode>,
    }
}

section! {
    /// Encryption of an array.
    #[schemars(rename = "Encryption")]
    "`encryption`"
    struct RawEncryption {
        /// How it is encrypted: luks2.
        #[schemars(required)]
        format: Choice<EncryptionFormat>,
        /// File whose bytes are the key; the key itself is never on a command line.
        key_file: String,
        /// prompt: the key is asked for at the terminal, instead of `key_file`.
        key: Choice<KeySource>,
        /// Whether reads are decrypted without a thread of dm-crypt's in between [default: false].
        no_read_workqueue: bool,
        /// Whether writes are encrypted without a thread of dm-crypt's in between [default: false].
        no_write_workqueue: bool,
        /// What is encrypted in one piece: 512, 1024, 2048 or 4096 bytes [default: cryptsetup's choice].
        sector_size: u32,
    }
}

section! {
    /// Swap spaces of one priority, on while trials run.
    #[schemars(rename = "Swap")]
    "`swap`"
    struct RawSwap {
        /// What becomes a swap space each, as the members of an array: names, ranges, globs, nested arrays.
        #[schemars(required)]
        members: Vec<At<RawMember>>,
        /// From 0 to 32767, the highest is used first; equal ones take turns [default: each lower than the last].
        #[schemars(range(max = 32767))]
        priority: u32,
    }
}

impl FromToml for Vec<At<RawSwap>> {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        if let DeValue::Array(values) = value {
            return Some(values.iter().map(|value| At::read(value, problems)).collect());
        }
        let remedy = "write for example `[{ members = [\"vol0\", \"vol1\"], priority = 10 }]`";
        problems.wrong_type(span, "a list of swap spaces", value, remedy);
        None
    }
}
