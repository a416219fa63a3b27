//! The tools that are compared, with the options that serve each best.

use super::target::{Kind, Target};
use crate::pages::read;
use crate::run::output;
use serde_json::Value;
use std::path::Path;

/// What one run showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    pub iops: f64,
    /// User and system time per I/O, nanoseconds.
    pub cpu_ns: f64,
    /// Median of the latency from submission to completion; t/io_uring records none.
    pub p50_ns: Option<f64>,
}

/// One tool, by the path of its program.
pub enum Tool {
    Ebbtide(String),
    Fio(String),
    TIoUring(String),
    /// As the engine and fio do: it looks at the first completion instead of waiting for a batch of them.
    PromptTIoUring(String),
}

impl Tool {
    pub fn name(&self) -> &'static str {
        match self {
            Tool::Ebbtide(_) => "ebbtide",
            Tool::Fio(_) => "fio",
            Tool::TIoUring(_) => "t/io_uring",
            Tool::PromptTIoUring(_) => "t/io_uring -c1",
        }
    }

    /// Program and arguments.
    pub fn command(&self, target: &Target, runtime: u32) -> Result<(String, Vec<String>), String> {
        let (path, depth, direct) = (target.path(), target.iodepth, u8::from(target.direct()));
        let rw = if target.write { "randwrite" } else { "randread" };
        // The batches that serve fio and t/io_uring best at this depth.
        let (submit, complete) = match depth {
            1 => (1, 1),
            2..=32 => (16, 32),
            _ => (32, 128),
        };
        let (program, text) = match self {
            Tool::Ebbtide(program) => {
                (program, format!("{path} rw={rw} bs=4k iodepth={depth} direct={direct} runtime={runtime}s"))
            }
            Tool::Fio(program) => (
                program,
                format!(
                    "--name=bench --filename={path} --size=512m --rw={rw} --bs=4k --direct={direct} --iodepth={depth} \
                     --ioengine=io_uring --fixedbufs --registerfiles --iodepth_batch_submit={submit} \
                     --iodepth_batch_complete_min=1 --iodepth_batch_complete_max={complete} --thread --norandommap \
                     --randrepeat=0 --invalidate=0 --lat_percentiles=1 --clat_percentiles=0 --time_based \
                     --runtime={runtime} --output-format=json"
                ),
            ),
            Tool::TIoUring(program) | Tool::PromptTIoUring(program) => {
                let wait = if matches!(self, Tool::TIoUring(_)) { submit } else { 1 };
                let text = format!(
                    "-d{depth} -s{submit} -c{wait} -p0 -B1 -F1 -X1 -b4096 -n1 -O{direct} -r{runtime} {path}"
                );
                (program, text)
            }
        };
        debug_assert!(target.kind != Kind::Null || target.write);
        Ok((program.clone(), text.split_whitespace().map(str::to_owned).collect()))
    }

    /// Runs the tool once for `runtime` seconds.
    pub fn run(&self, target: &Target, runtime: u32) -> Result<Figures, String> {
        let (program, arguments) = self.command(target, runtime)?;
        let before = children_cpu_ns()?;
        let text = output(&program, &arguments)?;
        let cpu = children_cpu_ns()? - before;
        let figures = match self {
            Tool::Ebbtide(_) => of_ebbtide(&text),
            Tool::Fio(_) => of_fio(&text, target.write),
            Tool::TIoUring(_) | Tool::PromptTIoUring(_) => of_t_io_uring(&text, cpu, runtime),
        };
        figures.ok_or_else(|| format!("{program}: no figures in its output: {text}"))
    }
}

/// CPU time of all ended children so far, in nanoseconds; the kernel counts it in hundredths of a second.
fn children_cpu_ns() -> Result<f64, String> {
    let stat = read(Path::new("/proc/self/stat"))?;
    // After the name, which ends with the last parenthesis: field 3 and on; cutime and cstime are 16 and 17 (proc(5)).
    let ticks = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace()).and_then(|mut fields| {
        let user: f64 = fields.nth(13)?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        Some(user + system)
    });
    ticks.map(|ticks| ticks * 1e7).ok_or_else(|| "/proc/self/stat has an unknown form".to_owned())
}

fn of_ebbtide(text: &str) -> Option<Figures> {
    let value = |key: &str| -> Option<f64> {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
    };
    Some(Figures { iops: value("iops")?, cpu_ns: value("cpu_ns")?, p50_ns: value("p50_ns") })
}

/// The first job of fio's JSON, before which a warning may come.
pub(super) fn job(text: &str) -> Option<Value> {
    let mut json: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    Some(json.get_mut("jobs")?.get_mut(0)?.take())
}

pub(super) fn number(from: &Value, key: &str) -> Option<f64> {
    from.get(key).and_then(Value::as_f64)
}

fn of_fio(text: &str, write: bool) -> Option<Figures> {
    let job = &job(text)?;
    let of = job.get(if write { "write" } else { "read" })?;
    let busy_ns =
        number(job, "job_runtime")? * 1e6 * (number(job, "usr_cpu")? + number(job, "sys_cpu")?) / 100.0;
    Some(Figures {
        iops: number(of, "iops")?,
        cpu_ns: busy_ns / number(of, "total_ios")?,
        p50_ns: of.get("lat_ns").and_then(|l| number(l.get("percentile")?, "50.000000")),
    })
}

/// It prints the IOPS of each second but the last.
fn of_t_io_uring(text: &str, cpu_ns: f64, runtime: u32) -> Option<Figures> {
    let seconds: Vec<f64> =
        text.lines().filter_map(|line| si(line.strip_prefix("IOPS=")?.split(',').next()?)).collect();
    let iops = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
    (iops > 0.0).then(|| Figures { iops, cpu_ns: cpu_ns / (iops * f64::from(runtime)), p50_ns: None })
}

/// `634.35K`, `1.2M` or a bare number.
fn si(text: &str) -> Option<f64> {
    let factor = match text.chars().last()? {
        'K' => 1e3,
        'M' => 1e6,
        _ => 1.0,
    };
    text.trim_end_matches(['K', 'M']).parse::<f64>().ok().map(|value| value * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_the_tools_print() {
        let ours = of_ebbtide("ops=5\niops=1000\ncpu_ns=86.5\nuser_ns=1\np50_ns=12\n").expect("figures");
        assert_eq!(ours, Figures { iops: 1000.0, cpu_ns: 86.5, p50_ns: Some(12.0) });
        let fio = r#"fio: a warning
            {"jobs":[{"job_runtime":2000,"usr_cpu":10.0,"sys_cpu":40.0,
            "read":{"iops":500.0,"total_ios":1000,"lat_ns":{"percentile":{"50.000000":7}}}}]}"#;
        let fio = of_fio(fio, false).expect("figures");
        assert_eq!(fio, Figures { iops: 500.0, cpu_ns: 1e6, p50_ns: Some(7.0) });
        let text = "submitter=0\nIOPS=634.35K, BW=2.48GiB/s, IOS/call=16/16\nIOPS=1.2M, BW=1GiB/s\nMaximum IOPS=1.2M\n";
        let t = of_t_io_uring(text, 1e9, 3).expect("figures");
        assert!((t.iops - 917_175.0).abs() < 1.0 && t.p50_ns.is_none());
        assert!(of_t_io_uring("Exiting on timeout", 1e9, 3).is_none());
    }
}
