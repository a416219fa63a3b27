//! Mistakes that users make: a good file, and what is written instead of a part of it.

/// The file in which the mistakes are made.
const GOOD: &str = r#"name = "nightly"

[volumes.vol]
count = 4
size = "256MiB"

[designs.linear]
layout = "linear"
members = ["vol[0..3]"]

[designs.stripe]
layout = "stripe"
chunk = "64KiB"
members = ["vol[0..3]"]

[workloads.randread]
rw = "randread"
bs = "4k"
iodepth = 32
runtime = "5s"
"#;

/// The name of a mistake; what is written instead of what (after the end instead of nothing), with `'` for `"`.
type Mistake = (&'static str, &'static [(&'static str, &'static str)]);

const MISTAKES: &[Mistake] = &[
    (
        "array-of-tables",
        &[
            ("[designs.linear]", "[[designs]]\nname = 'linear'"),
            ("[designs.stripe]", "[[designs]]\nname = 'stripe'"),
        ],
    ),
    ("arrivals-without-rate", &[("iodepth = 32", "iodepth = 32\nrate_process = 'poisson'")]),
    ("bits-per-second", &[("", "\n[links.instance]\nthroughput = '10Gbps'\n")]),
    (
        "burst-below-rate",
        &[("", "\n[volumes.vol.shape]\niops = { rate = 3000, burst = 100, credits = 5_400_000 }\n")],
    ),
    ("chunk-beyond-volume", &[("chunk = '64KiB'", "chunk = '512MiB'")]),
    (
        "chunk-not-a-power-of-two",
        &[("layout = 'stripe'\nchunk = '64KiB'", "layout = 'raid5'\nchunk = '96KiB'")],
    ),
    ("chunk-on-linear", &[("layout = 'linear'", "layout = 'linear'\nchunk = '64KiB'")]),
    ("copies-on-a-stripe", &[("layout = 'stripe'", "layout = 'stripe'\ncopies = 2")]),
    ("cpus-in-words", &[("iodepth = 32", "iodepth = 32\ncpus_allowed = 'first two'")]),
    ("direct-as-number", &[("iodepth = 32", "iodepth = 32\ndirect = 1")]),
    ("empty-shape", &[("", "\n[volumes.vol.shape]\n")]),
    (
        "file-and-device",
        &[
            ("count = 4\nsize = '256MiB'", "file = '/mnt/disk.img'\ndevice = '/dev/sdb'"),
            ("layout = 'linear'\nmembers = ['vol[0..3]']", "layout = 'linear'\nmembers = ['vol']"),
            (
                "layout = 'stripe'\nchunk = '64KiB'\nmembers = ['vol[0..3]']",
                "layout = 'linear'\nmembers = ['vol']",
            ),
        ],
    ),
    ("file-with-count", &[("size = '256MiB'", "size = '256MiB'\nfile = '/mnt/disk.img'")]),
    ("fio-key", &[("rw = 'randread'", "readwrite = 'randread'")]),
    (
        "group-as-member",
        &[("chunk = '64KiB'\nmembers = ['vol[0..3]']", "chunk = '64KiB'\nmembers = ['vol']")],
    ),
    ("heading-twice", &[("[designs.stripe]", "[designs.linear]")]),
    (
        "image-without-a-pool",
        &[
            ("count = 4\nsize = '256MiB'", "device = 'rbd:vol1'"),
            ("layout = 'linear'\nmembers = ['vol[0..3]']", "layout = 'linear'\nmembers = ['vol']"),
            (
                "layout = 'stripe'\nchunk = '64KiB'\nmembers = ['vol[0..3]']",
                "layout = 'linear'\nmembers = ['vol']",
            ),
        ],
    ),
    ("iops-as-text", &[("", "\n[volumes.vol.shape]\niops = '3k'\n")]),
    ("key-of-another-section", &[("size = '256MiB'", "size = '256MiB'\niops = 3000")]),
    (
        "jobs-of-two-lengths",
        &[(
            "[workloads.randread]\nrw = 'randread'",
            "[workloads.oltp]\nbs = '8k'\n[workloads.oltp.jobs.log]\nrw = 'write'\nruntime = '4s'\n[workloads.oltp.jobs.data]\nrw = \
                 'randread'",
        )],
    ),
    ("libaio", &[("iodepth = 32", "iodepth = 32\nioengine = 'libaio'")]),
    ("mdadm-arrangement", &[("layout = 'stripe'", "layout = 'raid10'\narrangement = 'f2'")]),
    ("mdadm-level", &[("layout = 'stripe'", "level = 0")]),
    ("members-as-text", &[("chunk = '64KiB'\nmembers = ['vol[0..3]']", "chunk = '64KiB'\nmembers = 'vol*'")]),
    ("misspelt-key", &[("iodepth = 32", "io_depth = 32")]),
    ("misspelt-section", &[("[workloads.randread]", "[workload.randread]")]),
    (
        "misspelt-volume",
        &[("chunk = '64KiB'\nmembers = ['vol[0..3]']", "chunk = '64KiB'\nmembers = ['vol0', 'vo1']")],
    ),
    ("mix-beyond-100", &[("rw = 'randread'", "rw = 'randrw'\nrwmixread = 170")]),
    ("mix-without-mix", &[("rw = 'randread'", "rw = 'randread'\nrwmixread = 70")]),
    ("more-copies-than-members", &[("layout = 'stripe'", "layout = 'raid10'\ncopies = 5")]),
    ("most-below-least", &[("", "\n[answer]\ntrials_min = 10\ntrials_max = 8\n")]),
    ("name-with-slash", &[("[designs.stripe]", "[designs.'raid0/64k']")]),
    ("no-end", &[("iodepth = 32\nruntime = '5s'", "iodepth = 32")]),
    ("no-members", &[("chunk = '64KiB'\nmembers = ['vol[0..3]']", "chunk = '64KiB'\nmembers = []")]),
    ("no-size", &[("count = 4\nsize = '256MiB'", "count = 4")]),
    (
        "no-workloads",
        &[("\n[workloads.randread]\nrw = 'randread'\nbs = '4k'\niodepth = 32\nruntime = '5s'", "")],
    ),
    ("odd-bs", &[("bs = '4k'", "bs = '1000'")]),
    ("odd-chunk", &[("chunk = '64KiB'", "chunk = '10kB'")]),
    ("odd-size", &[("size = '256MiB'", "size = '1000B'")]),
    ("p99-below-median", &[("", "\n[volumes.vol.shape]\nlatency = { median = '2ms', p99 = '0.5ms' }\n")]),
    ("polling-through-the-cache", &[("iodepth = 32", "iodepth = 32\nhipri = true\ndirect = false")]),
    ("precision-as-percent-number", &[("", "\n[answer]\nprecision = 5\n")]),
    ("precision-too-narrow", &[("", "\n[answer]\nprecision = '0.01%'\n")]),
    ("psync-with-iodepth", &[("iodepth = 32", "iodepth = 32\nioengine = 'psync'")]),
    ("raid-by-number", &[("layout = 'stripe'", "layout = 'raid0'")]),
    (
        "raid10-of-one",
        &[
            ("layout = 'stripe'", "layout = 'raid10'"),
            ("chunk = '64KiB'\nmembers = ['vol[0..3]']", "chunk = '64KiB'\nmembers = ['vol0']"),
        ],
    ),
    (
        "raid5-of-two",
        &[
            ("layout = 'stripe'", "layout = 'raid5'"),
            ("chunk = '64KiB'\nmembers = ['vol[0..3]']", "chunk = '64KiB'\nmembers = ['vol0', 'vol1']"),
        ],
    ),
    (
        "raid6-of-three",
        &[
            ("layout = 'stripe'", "layout = 'raid6'"),
            ("chunk = '64KiB'\nmembers = ['vol[0..3]']", "chunk = '64KiB'\nmembers = ['vol[0..2]']"),
        ],
    ),
    ("rate-without-per-second", &[("", "\n[volumes.vol.shape]\niops = 3000\nthroughput = '125MiB'\n")]),
    ("runtime-and-size", &[("runtime = '5s'", "runtime = '5s'\nsize = '1GiB'")]),
    ("runtime-without-unit", &[("runtime = '5s'", "runtime = 5")]),
    (
        "same-device-twice",
        &[(
            "size = '256MiB'",
            "size = '256MiB'\n\n[volumes.data]\ndevice = '/dev/disk/by-id/nvme-a'\n\n[volumes.log]\ndevice = '/dev/disk/by-id/nvme-a'",
        )],
    ),
    (
        "several-at-once",
        &[
            ("size = '256MiB'", "size = '256Mb/s'"),
            ("chunk = '64KiB'", "chunk = '1000'"),
            ("iodepth = 32", "iodepth = '32'"),
            ("runtime = '5s'\n", "runtime = '5'\n\n[answer]\ncontrol = 'lineal'\n"),
        ],
    ),
    ("span-beyond-array", &[("iodepth = 32", "iodepth = 32\nspan = '2GiB'")]),
    ("too-few-trials", &[("", "\n[answer]\ntrials_min = 3\n")]),
    ("trim", &[("rw = 'randread'", "rw = 'randtrim'")]),
    (
        "unclosed-list",
        &[("layout = 'linear'\nmembers = ['vol[0..3]']", "layout = 'linear'\nmembers = ['vol0', 'vol1'")],
    ),
    ("unclosed-quote", &[("bs = '4k'", "bs = '4k")]),
    ("unknown-control", &[("", "\n[answer]\ncontrol = 'linear-4'\n")]),
    (
        "unknown-link",
        &[("", "\n[volumes.vol.shape]\nlink = 'instnace'\n\n[links.instance]\nthroughput = '125MB/s'\n")],
    ),
    ("unknown-rw", &[("rw = 'randread'", "rw = 'random-read'")]),
    ("unknown-size-unit", &[("size = '256MiB'", "size = '256 megs'")]),
    ("unquoted-size", &[("size = '256MiB'", "size = 256MiB")]),
    (
        "volume-beyond-count",
        &[("chunk = '64KiB'\nmembers = ['vol[0..3]']", "chunk = '64KiB'\nmembers = ['vol[0..4]']")],
    ),
    ("volume-name-twice", &[("size = '256MiB'", "size = '256MiB'\n\n[volumes.vol2]\nsize = '1GiB'")]),
    (
        "volume-twice",
        &[("chunk = '64KiB'\nmembers = ['vol[0..3]']", "chunk = '64KiB'\nmembers = ['vol[0..3]', 'vol1']")],
    ),
    ("yaml-colon", &[("name = 'nightly'", "name: nightly")]),
    ("zero-iodepth", &[("iodepth = 32", "iodepth = 0")]),
    ("zero-size", &[("size = '256MiB'", "size = '0MiB'")]),
];

/// The files by name, without extension.
pub fn files() -> impl Iterator<Item = (&'static str, String)> {
    let quoted = |text: &str| text.replace('\'', "\"");
    MISTAKES.iter().map(move |(name, edits)| {
        let text = edits.iter().fold(GOOD.to_owned(), |text, (good, bad)| {
            let (good, bad) = (quoted(good), quoted(bad));
            if good.is_empty() {
                return text + &bad;
            }
            assert_eq!(text.matches(&good).count(), 1, "{name}: {good} stands once");
            text.replace(&good, &bad)
        });
        (*name, text)
    })
}
