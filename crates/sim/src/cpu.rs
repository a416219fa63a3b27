//! CPU of the simulated hosts: each job is one thread that spends a fixed time per I/O and a time per byte copied.

use ebbtide_model::experiment::Host;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::CpuUse;
use ebbtide_model::units::{Bytes, Instant, Nanos};
use ebbtide_model::workload::OpKind;

#[derive(Debug)]
pub(super) struct Cpu {
    per_io: PerOp<f64>,
    per_byte: f64,
    /// When each job's thread has nothing left to do.
    free: Vec<f64>,
    /// Time that each job's thread worked within the window.
    used: Vec<f64>,
    begin: Instant,
    cores: u32,
    clients: u32,
}

impl Cpu {
    /// For `jobs`, beside which so many others use the cores.
    pub(super) fn new(host: &Host, (jobs, others): (u32, u32), clients: u32, begin: Instant) -> Self {
        let cores = host.cores.max(1);
        // More threads than cores on a host: each gets its share of them.
        let crowding =
            (f64::from(jobs.saturating_add(others)) / f64::from(clients.max(1)) / f64::from(cores)).max(1.0);
        Cpu {
            per_io: PerOp {
                read: host.cpu_per_io.0 as f64 * crowding,
                write: host.cpu_per_write.unwrap_or(host.cpu_per_io).0 as f64 * crowding,
            },
            per_byte: if host.copy_rate > 0.0 { 1e9 / host.copy_rate * crowding } else { 0.0 },
            free: vec![0.0; jobs as usize],
            used: vec![0.0; jobs as usize],
            begin,
            cores,
            clients: clients.max(1),
        }
    }

    /// The job's thread works on one I/O that is ready at `now`; says when it has been submitted.
    #[inline]
    pub(super) fn io(&mut self, op: OpKind, job: u32, now: Instant) -> Instant {
        let per_io = *self.per_io.get(op);
        if per_io == 0.0 { now } else { self.work(job, now, per_io) }
    }

    /// The job's thread copies `bytes` that are there at `now`; says when it is done.
    pub(super) fn copy(&mut self, job: u32, now: Instant, bytes: Bytes) -> Instant {
        self.work(job, now, bytes.0 as f64 * self.per_byte)
    }

    fn work(&mut self, job: u32, now: Instant, nanos: f64) -> Instant {
        let job = job as usize;
        let end = self.free[job].max(now.0 as f64) + nanos;
        self.free[job] = end;
        if now >= self.begin {
            self.used[job] += nanos;
        }
        Instant(end as u64)
    }

    /// Time that each job's thread worked so far.
    pub(super) fn used(&self) -> &[f64] {
        &self.used
    }

    /// Moves `cells` cells of length `cell` ahead, in each of which the threads work as long as in `used`.
    pub(super) fn leap(&mut self, used: &[f64], cells: u64, cell: Nanos) {
        for (free, (total, used)) in self.free.iter_mut().zip(self.used.iter_mut().zip(used)) {
            *free += cell.times(cells).0 as f64;
            *total += used * cells as f64;
        }
    }

    /// What was used over `elapsed`.
    pub(super) fn finish(&self, elapsed: Nanos) -> CpuUse {
        let used: f64 = self.used.iter().sum();
        let busiest = self.used.iter().copied().fold(0.0, f64::max);
        let share = |nanos: f64| (nanos * 1000.0 / elapsed.0.max(1) as f64).min(1000.0) as u32;
        CpuUse {
            load_user: Nanos(0),
            load_system: Nanos(used as u64),
            host_busy: Some(Nanos(used as u64)),
            host_steal: Some(Nanos(0)),
            cores: self.cores.saturating_mul(self.clients),
            busiest_thread_permille: Some(share(busiest)),
            ..CpuUse::default()
        }
    }
}
