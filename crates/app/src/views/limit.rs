//! What `ebb limit` says: how it holds a program, and how it went.

use ebbtide_model::limit::{Kind, Limits};
use ebbtide_model::units::{format_bytes, format_count, format_throughput};
use ebbtide_runner::limit::{Course, End, Target};
use serde_json::{Map, Value, json};

/// What is held, in a sentence.
pub fn begins(limits: &Limits) -> String {
    let each = limits.set().map(|(_, name, limit)| format!("{name} {}", format_throughput(limit as f64)));
    format!("holding {}", each.collect::<Vec<_>>().join(", "))
}

/// Bytes in a second, and how many more than the limit gives in the time that it took: a quarter of a second's worth is nothing.
fn rate(limit: u64, course: &Course, kind: Kind) -> (f64, Option<u64>) {
    let (moved, elapsed) = (course.moved[kind] as f64, course.elapsed.as_secs_f64());
    let above = moved - limit as f64 * elapsed;
    (moved / elapsed.max(1e-9), (above > limit as f64 / 4.0).then_some(above as u64))
}

/// What was moved, at which rate, and how long the program stood still.
pub fn ended(limits: &Limits, course: &Course) -> Vec<String> {
    let elapsed = course.elapsed.as_secs_f64();
    let bytes = |number: u64| format_bytes(number as f64);
    let mut lines = Vec::new();
    for (kind, name, limit) in limits.set() {
        let (moved, (rate, above)) = (bytes(course.moved[kind]), rate(limit, course, kind));
        let limit = format_throughput(limit as f64);
        lines.push(format!("{name} {moved} in {elapsed:.1} s: {} of {limit}", format_throughput(rate)));
        lines.extend(above.map(|above| {
            format!(
                "{name} ended {} above its limit: that much passed before a stop took effect, and it ended before it was paid for",
                bytes(above)
            )
        }));
    }
    if course.stops > 0 {
        let (held, stops) = (course.held.as_secs_f64(), format_count(course.stops, "stop"));
        lines.push(format!("held back {held:.1} s in {stops}"));
    }
    lines
}

/// The same for programs.
pub fn json(limits: &Limits, target: &Target, end: End, course: &Course) -> Value {
    let each = limits.set().map(|(kind, name, limit)| {
        let (rate, above) = rate(limit, course, kind);
        let value = json!({
            "limit_per_second": limit, "moved": course.moved[kind], "per_second": rate,
            "above_limit": above.unwrap_or(0), "exceeded": above.is_some(),
        });
        (name.to_owned(), value)
    });
    let (command, pid) = match target {
        Target::Command(words) => {
            (Some(words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>()), None)
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
        "elapsed_s": course.elapsed.as_secs_f64(),
        "stops": course.stops,
        "held_s": course.held.as_secs_f64(),
        "rates": each.collect::<Map<String, Value>>(),
    })
}
