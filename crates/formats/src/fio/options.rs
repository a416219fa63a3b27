//! A workload in fio's words.

use ebbtide_model::units::Nanos;
use ebbtide_model::workload::{Access, Arrival, IoEngine, Mix, Stop, Workload};

/// The options that describe `workload`, with fio's names and its units, as fio's JSON lists them: always those that
/// readers look for (rw, bs, iodepth, numjobs, direct, ioengine), of the rest those that are not at their default.
/// Limits count over all jobs here.
pub fn options(workload: &Workload) -> Vec<(String, String)> {
    let w = workload;
    let seconds = |time: Nanos| time.as_secs_f64().to_string();
    let mut options = vec![
        ("name", w.name.clone()),
        ("rw", operation(w.access, w.mix).to_owned()),
        ("bs", w.bs.0.to_string()),
        ("iodepth", w.iodepth.to_string()),
        ("numjobs", w.numjobs.to_string()),
        ("direct", u8::from(w.direct).to_string()),
        ("ioengine", engine(w.ioengine).to_owned()),
    ];
    let mut say =
        |name: &'static str, value: Option<String>| options.extend(value.map(|value| (name, value)));
    let on = |switch: bool| switch.then(|| "1".to_owned());
    let (stop_size, runtime) = match w.stop {
        Stop::Size(size) => (Some(size), w.details.time_limit),
        Stop::Runtime(runtime) => (None, Some(runtime)),
    };
    say("size", w.span.or(stop_size).map(|size| size.0.to_string()));
    say(
        "io_size",
        stop_size.filter(|size| w.span.is_some_and(|span| span != *size)).map(|s| s.0.to_string()),
    );
    say("offset", Some(w.details.offset.0).filter(|offset| *offset > 0).map(|offset| offset.to_string()));
    say("runtime", runtime.map(seconds));
    say("time_based", on(stop_size.is_none()));
    say("ramp_time", Some(w.warm_up).filter(|time| time.0 > 0).map(seconds));
    if let Mix::Mixed { read_percent } = w.mix {
        say("rwmixread", Some(read_percent.to_string()));
    }
    say("sync", on(w.sync));
    say("fsync", w.details.fsync_every.map(|every| every.to_string()));
    say("fdatasync", w.details.fdatasync_every.map(|every| every.to_string()));
    say("end_fsync", on(w.end_fsync));
    say("rate", w.rate.map(|rate| rate.0.to_string()));
    let (iops, process) = match w.arrival {
        Arrival::Closed => (None, None),
        Arrival::Fixed { iops } => (Some(iops), Some("linear")),
        Arrival::Poisson { iops } => (Some(iops), Some("poisson")),
    };
    say("rate_iops", iops.map(|iops| iops.to_string()));
    say("rate_process", process.map(str::to_owned));
    // Microseconds, fio's unit of a bare number here.
    let think = w.think_time.0;
    say("thinktime", (think > 0).then(|| (think as f64 / 1e3).to_string()));
    let cpus: Vec<String> = w.engine.cpus_allowed.iter().map(u32::to_string).collect();
    say("cpus_allowed", (!cpus.is_empty()).then(|| cpus.join(",")));
    say("nice", w.engine.nice.map(|nice| nice.to_string()));
    say("hipri", on(w.engine.hipri));
    say("sqthread_poll", on(w.engine.sqthread_poll));
    say("iomem", w.engine.huge_pages.then(|| "mmaphuge".to_owned()));
    options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// fio's word for it; `rewrite` is ours.
fn operation(access: Access, mix: Mix) -> &'static str {
    match (access, mix) {
        (Access::Sequential, Mix::Read) => "read",
        (Access::Sequential, Mix::Write) => "write",
        (Access::Sequential, Mix::Mixed { .. }) => "rw",
        (Access::Random, Mix::Read) => "randread",
        (Access::Random, Mix::Write) => "randwrite",
        (Access::Random, Mix::Mixed { .. }) => "randrw",
        (_, Mix::Rewrite) => "rewrite",
    }
}

fn engine(engine: IoEngine) -> &'static str {
    match engine {
        IoEngine::IoUring => "io_uring",
        IoEngine::Psync => "psync",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::units::Bytes;
    use ebbtide_model::workload::Details;

    fn said(workload: &Workload) -> String {
        let options = options(workload).into_iter().map(|(name, value)| format!("{name}={value}"));
        options.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_not_at_its_default_is_said_in_fios_units() {
        let plain = Workload::new("a", Access::Random, Mix::Read, Stop::Runtime(Nanos::from_millis(1500)));
        assert_eq!(
            said(&plain),
            "name=a rw=randread bs=4096 iodepth=1 numjobs=1 direct=1 ioengine=io_uring runtime=1.5 time_based=1"
        );
        let rich = Workload {
            mix: Mix::Mixed { read_percent: 70 },
            stop: Stop::Size(Bytes(8192)),
            span: Some(Bytes(4096)),
            arrival: Arrival::Poisson { iops: 12.5 },
            rate: Some(Bytes(1000)),
            think_time: Nanos(2_500),
            warm_up: Nanos::from_secs(2),
            sync: true,
            end_fsync: true,
            ioengine: IoEngine::Psync,
            details: Details {
                offset: Bytes(512),
                fsync_every: Some(3),
                fdatasync_every: Some(5),
                ..Details::default()
            },
            ..plain
        };
        assert_eq!(
            said(&rich),
            "name=a rw=randrw bs=4096 iodepth=1 numjobs=1 direct=1 ioengine=psync size=4096 io_size=8192 offset=512 \
             ramp_time=2 rwmixread=70 sync=1 fsync=3 fdatasync=5 end_fsync=1 rate=1000 rate_iops=12.5 rate_process=poisson \
             thinktime=2.5"
        );
    }
}
