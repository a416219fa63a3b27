//! What `ebb limit` says: how it holds a program, how that goes, and how it went.

use ebbtide_host::limit::group::Brake;
use ebbtide_model::limit::{Counts, Kind, Limits};
use ebbtide_model::units::{format_bytes, format_count, format_iops, format_throughput};
use ebbtide_runner::limit::{Course, End, LimitMethods, Target};
use serde_json::{Map, Value, json};

fn rate(kind: Kind, per_second: f64) -> String {
    match kind {
        Kind::Ops => format!("{} ops/s", format_iops(per_second)),
        _ => format_throughput(per_second),
    }
}

fn amount(kind: Kind, number: u64) -> String {
    match kind {
        Kind::Ops => format_count(number, "operation"),
        _ => format_bytes(number as f64),
    }
}

/// What is held, and how, in a sentence; what else there is to say of it is in the JSON.
pub fn begins(limits: &Limits, ways: &LimitMethods) -> String {
    let what: Vec<String> =
        limits.set().map(|(kind, limit)| format!("{} {}", kind.name(), rate(kind, limit as f64))).collect();
    let stops = match ways.brake {
        Some((_, Brake::Processor)) => "little time of the processor, which ends no call early",
        Some((_, Brake::Freezer)) => "the freezer",
        None => "signals",
    };
    let kernel = ways.kernel.map(|(name, _)| format!("{name} and ")).unwrap_or_default();
    let mut text = format!("holding {} by {kernel}{stops}", what.join(", "));
    if limits.of(Kind::Ops).is_some() {
        text += match ways.kernel {
            Some(_) if ways.sees_cache => "; an operation is a request to a device",
            Some(_) => "; an operation is a request to a device, of a buffered writer a call",
            None => "; an operation is a call that reads or writes",
        };
    }
    text
}

/// What a stop does to calls that are under way, where it does anything.
pub fn warning(ways: &LimitMethods) -> Option<&'static str> {
    (!matches!(ways.brake, Some((_, Brake::Processor)))).then_some(
        "a stop ends some calls early: reads of /dev/zero and /dev/urandom, writes to pipes and sockets. A program that takes \
         a short one for a whole one then writes less and says nothing. dd does so where it has a count: give it \
         iflag=fullblock. As root and for a command, a control group with the controller cpu ends no call early",
    )
}

/// The live line: rates of the last moment, by `now`, and what was held.
pub fn live(limits: &Limits, course: &Course, now: impl Fn(Kind) -> f64) -> String {
    let each = limits.set().map(|(kind, limit)| {
        let now = rate(kind, now(kind));
        let (limit, moved) = (rate(kind, limit as f64), amount(kind, course.moved[kind]));
        format!("{} {now} of {limit}, {moved}", kind.name())
    });
    let each: Vec<String> = each.collect();
    format!("{} | held back {:.0}%", each.join(" | "), 100.0 * share_held(course))
}

fn share_held(course: &Course) -> f64 {
    let elapsed = course.elapsed.as_secs_f64();
    if elapsed > 0.0 { course.held.as_secs_f64() / elapsed } else { 0.0 }
}

fn per_second(course: &Course, moved: u64) -> f64 {
    let elapsed = course.elapsed.as_secs_f64();
    if elapsed > 0.0 { moved as f64 / elapsed } else { 0.0 }
}

/// How much more was moved than the limit gives in the time that it took.
fn above(limit: u64, course: &Course, moved: u64) -> f64 {
    (moved as f64 - limit as f64 * course.elapsed.as_secs_f64()).max(0.0)
}

/// How far ahead of its limit the program was at most: in the end too, after the last look of those that hold it.
fn burst(kind: Kind, limit: u64, course: &Course) -> u64 {
    course.burst[kind].max(above(limit, course, course.moved[kind]) as u64)
}

/// What may be moved at once without being said: a quarter of a second's worth.
fn at_once(limit: u64) -> f64 {
    limit as f64 / 4.0
}

/// What was moved, at which rate, and how long the program stood still.
pub fn ended(limits: &Limits, course: &Course, ways: &LimitMethods) -> Vec<String> {
    let mut lines = Vec::new();
    for (kind, limit) in limits.set() {
        let moved = course.moved[kind];
        let mut line = format!(
            "{} {} in {:.1} s: {} of {}",
            kind.name(),
            amount(kind, moved),
            course.elapsed.as_secs_f64(),
            rate(kind, per_second(course, moved)),
            rate(kind, limit as f64),
        );
        if let (Some(by_kernel), Some((name, _)), Kind::Read | Kind::Write) =
            (course.by_kernel, ways.kernel, kind)
        {
            line += &format!("; {name} saw {}", amount(kind, by_kernel[kind]));
        }
        let burst = burst(kind, limit, course);
        if burst as f64 > at_once(limit) {
            line += &format!("; at most {} ahead of that at any time", amount(kind, burst));
        }
        lines.push(line);
        let above = above(limit, course, moved);
        if above > at_once(limit) {
            lines.push(format!(
                "{} ended {} above its limit: that much passed before a stop took effect, and it ended before it was paid for",
                kind.name(),
                amount(kind, above as u64),
            ));
        }
    }
    if !course.paused.is_zero() {
        lines.push(format!(
            "stopped by somebody else for {:.1} s more, which does not count",
            course.paused.as_secs_f64()
        ));
    }
    if course.stops > 0 {
        lines.push(format!(
            "held back {:.1} s in {}, at most {:.2} s each",
            course.held.as_secs_f64(),
            format_count(course.stops, "stop"),
            course.longest.as_secs_f64(),
        ));
    }
    lines
}

/// The same for programs.
pub fn json(limits: &Limits, target: &Target, end: End, course: &Course, ways: &LimitMethods) -> Value {
    let by_kernel = |kind: Kind| course.by_kernel.map(|Counts(counts)| counts[kind as usize]);
    let rates: Map<String, Value> = limits
        .set()
        .map(|(kind, limit)| {
            let moved = course.moved[kind];
            let above = above(limit, course, moved);
            let value = json!({
                "limit_per_second": limit, "moved": moved, "per_second": per_second(course, moved),
                "burst": burst(kind, limit, course), "above_limit": above as u64,
                "exceeded": above > at_once(limit),
                "seen_by_kernel_limit": if kind == Kind::Net { None } else { by_kernel(kind) },
            });
            (kind.name().to_owned(), value)
        })
        .collect();
    let (command, pid) = match target {
        Target::Command(words) => {
            (Some(words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()), None)
        }
        Target::Process(pid) => (None, Some(pid)),
    };
    let (status, signal) = match end {
        End::Exited(status) => (Some(status), None),
        End::Signalled(signal) => (None, Some(signal)),
        End::Unknown | End::Released(_) => (None, None),
    };
    json!({
        "schema": "ebbtide.limit/1",
        "command": command,
        "pid": pid,
        "status": status,
        "signal": signal,
        "released": matches!(end, End::Released(_)),
        "kernel_limit": ways.kernel.map(|(name, devices)| json!({ "name": name, "devices": devices })),
        "stopped_by": match ways.brake {
            Some((_, Brake::Processor)) => "processor",
            Some((_, Brake::Freezer)) => "freezer",
            None => "signals",
        },
        "why": ways.why,
        "elapsed_s": course.elapsed.as_secs_f64(),
        "paused_s": course.paused.as_secs_f64(),
        "stops": course.stops,
        "held_s": course.held.as_secs_f64(),
        "longest_stop_s": course.longest.as_secs_f64(),
        "rates": rates,
    })
}
