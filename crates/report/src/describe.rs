//! Layouts, workloads and shapes in words.

use ebbtide_model::experiment::{Experiment, Volume};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::units::{format_iops, format_throughput};
use ebbtide_model::volume::Shape;
use ebbtide_model::workload::{Access, Arrival, IoEngine, Mix, Stop, Workload};

/// Names of the volumes of a layout, in layout order.
pub(crate) fn leaves(node: &LayoutNode, experiment: &Experiment) -> Vec<String> {
    let volumes = node.volumes().into_iter().filter_map(|index| experiment.volumes.get(index));
    volumes.map(|volume| volume.name.clone()).collect()
}

/// What a workload does, as a verb that follows the name of a design.
pub(crate) fn verb(workload: &Workload) -> String {
    let order = match workload.access {
        Access::Sequential => "sequentially",
        Access::Random => "at random",
    };
    match workload.mix {
        Mix::Read => format!("reads {order}"),
        Mix::Write => format!("writes {order}"),
        Mix::Rewrite => format!("rewrites {order}"),
        Mix::Mixed { read_percent } => format!("reads ({read_percent}%) and writes {order}"),
    }
}

/// A workload in words with every setting that differs from the plainest one.
pub(crate) fn workload(workload: &Workload) -> String {
    let order = match workload.access {
        Access::Sequential => "sequential",
        Access::Random => "random",
    };
    let mix = match workload.mix {
        Mix::Read => "read".to_owned(),
        Mix::Write => "write".to_owned(),
        Mix::Rewrite => "rewrite".to_owned(),
        Mix::Mixed { read_percent } => format!("mix with {read_percent}% reads"),
    };
    let mut parts = vec![
        format!("{order} {mix}"),
        format!("bs {}", workload.bs),
        format!("iodepth {}", workload.iodepth),
    ];
    if workload.numjobs > 1 {
        parts.push(format!("{} jobs", workload.numjobs));
    }
    match workload.arrival {
        Arrival::Closed => {}
        Arrival::Fixed { iops } => parts.push(format!("{} IOPS at a fixed pace", format_iops(iops))),
        Arrival::Poisson { iops } => parts.push(format!("{} IOPS at random instants", format_iops(iops))),
    }
    if let Some(rate) = workload.rate {
        parts.push(format!("at most {}", format_throughput(rate.0 as f64)));
    }
    if workload.think_time.0 > 0 {
        parts.push(format!("think time {}", workload.think_time));
    }
    if let Some(span) = workload.span {
        parts.push(format!("on the first {span}"));
    }
    parts.push(match workload.stop {
        Stop::Runtime(time) => format!("for {time}"),
        Stop::Size(bytes) => format!("until {bytes} are moved"),
    });
    parts.push(if workload.direct { "O_DIRECT".to_owned() } else { "through the page cache".to_owned() });
    if workload.sync {
        parts.push("O_SYNC".to_owned());
    }
    if workload.end_fsync {
        parts.push("fsync at the end".to_owned());
    }
    if workload.ioengine == IoEngine::Psync {
        parts.push("pread and pwrite".to_owned());
    }
    parts.join(", ")
}

/// The shape of a volume in words, where it has one.
pub(crate) fn volume_shape(volume: &Volume) -> Option<String> {
    volume.shape.as_ref().map(Shape::to_string)
}
