//! Volumes on other hosts: how long one that does not answer is waited for, in one place for whoever connects to them.
//!
//! What a program above sees of a lost host is a pause and then an error: the time until the loss is noticed, and the time for which I/O is
//! held in case the host comes back. The kernel's own values make that two to ten minutes.

/// How long a host that does not answer is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The other side is asked so often whether it lives, in seconds; at least 1.
    pub ask_every_s: u32,
    /// The answer may take so long, in seconds, before the connection is given up and made anew; at least 1.
    pub answer_within_s: u32,
    /// I/O is held so long, in seconds, while the connection is made anew; then it fails.
    pub hold_s: u32,
}

/// Of a member of an array that has other copies: another host has the data, so it is given up in seconds.
///
/// Asking every 2 s notices a host that lost its power, which closes no connection. An answer that takes 3 s tells a slow network from a
/// dead one: TCP has repeated a lost segment four times by then. A mistake there costs nothing, because I/O is held while the connection
/// is made anew; only what stays away for 5 s more costs a copy, which has to be brought up to date again.
pub const COPIES: Waiting = Waiting { ask_every_s: 2, answer_within_s: 3, hold_s: 5 };

/// How long reads and writes of a volume that nobody else has a copy of wait for a lost connection, where nobody says: seconds.
///
/// The kernel's own are nvme-tcp: without end (`fast_io_fail_tmo` off) until `ctrl_loss_tmo` takes the device away after 600 s; iSCSI:
/// `replacement_timeout` 120 s. A minute is more than OpenSSH and this program need to notice a dead link (10 to 15 s) and to
/// connect again, and a router's restart; and less than the two minutes after which the kernel calls a task hung (`hung_task_timeout_secs`).
pub const HOLD_S: u32 = 60;

/// Of a volume whose protocol goes through SSH, which notices by itself that the other host is gone. Its one stream may hold a sign of
/// life up behind data: 32 MiB, as much as is on its way at most, take 10 Mbit/s 27 s.
const THROUGH_SSH: Waiting = Waiting { ask_every_s: 15, answer_within_s: 30, hold_s: HOLD_S };

/// Attempts to connect again are so far apart, in seconds: a host that is back is in use a second later, and an attempt costs a packet.
pub const RECONNECT_S: u32 = 1;

impl Waiting {
    /// Of one volume whose reads and writes wait for `hold_s` seconds. A host that is gone is noticed as soon as that of a copy is: only
    /// what then happens differs.
    pub const fn of_volume(hold_s: u32, through_ssh: bool) -> Waiting {
        let asked = if through_ssh { THROUGH_SSH } else { COPIES };
        Waiting { hold_s, ..asked }
    }

    /// Longest time, in seconds, between the loss of the host and the error that the array above gets.
    pub const fn longest_pause_s(self) -> u32 {
        self.ask_every_s + self.answer_within_s + self.hold_s
    }

    /// What open-iscsi's record of a node is set to (`iscsiadm --mode node --op update --name NAME --value VALUE`), before its login: a
    /// change of iscsid.conf does not reach records that exist. In seconds.
    pub fn iscsi(self) -> Vec<(&'static str, u32)> {
        vec![
            // 120 by default, in which every write to the array waits.
            ("node.session.timeo.replacement_timeout", self.hold_s),
            // 5 and 5 by default.
            ("node.conn[0].timeo.noop_out_interval", self.ask_every_s),
            ("node.conn[0].timeo.noop_out_timeout", self.answer_within_s),
            // The login's own time stays at 15: the hold ends by itself meanwhile, and a busy host that is back takes more than seconds to
            // let anybody in. With 5 a host under emulation did not come back at all.
            // 15, 30 and 30 by default: what a command that timed out is tried to be saved with, one after the other.
            ("node.session.err_timeo.abort_timeout", self.hold_s.min(15)),
            ("node.session.err_timeo.lu_reset_timeout", self.hold_s.min(30)),
            ("node.session.err_timeo.tgt_reset_timeout", self.hold_s.min(30)),
        ]
    }

    /// Options of a connection over NVMe/TCP as the kernel calls them (`/dev/nvme-fabrics`), in seconds.
    pub fn nvme_tcp(self) -> Vec<(&'static str, i64)> {
        vec![
            // Asked at half of it, and given up after the whole of it (drivers/nvme/host/core.c): 1.5 of it until a loss is noticed.
            ("keep_alive_tmo", i64::from((self.ask_every_s + self.answer_within_s).div_ceil(3) * 2)),
            ("reconnect_delay", i64::from(RECONNECT_S)),
            // Off by default: multipath, through which fabrics are used, then holds I/O for as long as it tries to connect, whatever
            // the array above asks for (md's failfast is no help against that).
            ("fast_io_fail_tmo", i64::from(self.hold_s)),
            // 600 by default, after which the device vanishes and somebody has to connect by hand. I/O has failed long before, so it may
            // go on trying for good.
            ("ctrl_loss_tmo", -1),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_host_is_given_up_in_seconds_over_either_transport() {
        assert_eq!(COPIES.longest_pause_s(), 10);
        let iscsi = COPIES.iscsi();
        let of = |name: &str| iscsi.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let noticed = of("node.conn[0].timeo.noop_out_interval")
            .zip(of("node.conn[0].timeo.noop_out_timeout"))
            .map(|(every, within)| every + within);
        assert_eq!(noticed.zip(of("node.session.timeo.replacement_timeout")), Some((5, 5)));
        let nvme = COPIES.nvme_tcp();
        let of = |name: &str| nvme.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value);
        let noticed = of("keep_alive_tmo") * 3 / 2;
        assert!(noticed + of("fast_io_fail_tmo") <= i64::from(COPIES.longest_pause_s()) + 1, "{nvme:?}");
        assert_eq!(of("ctrl_loss_tmo"), -1);
    }

    #[test]
    fn a_volume_alone_is_asked_as_a_copy_is_and_held_for_as_long_as_is_said() {
        assert_eq!(Waiting::of_volume(COPIES.hold_s, false), COPIES);
        let waiting = Waiting::of_volume(HOLD_S, false);
        assert_eq!(waiting.nvme_tcp()[0], ("keep_alive_tmo", 4));
        assert!(waiting.nvme_tcp().contains(&("fast_io_fail_tmo", 60)));
        let iscsi = waiting.iscsi();
        assert!(iscsi.contains(&("node.session.timeo.replacement_timeout", 60)));
        // No longer than open-iscsi's own.
        assert!(iscsi.contains(&("node.session.err_timeo.abort_timeout", 15)));
        // A sign of life may be behind 27 s of data in one stream.
        let tunnel = Waiting::of_volume(10, true);
        assert_eq!(tunnel.nvme_tcp()[0], ("keep_alive_tmo", 30));
        assert!(tunnel.iscsi().contains(&("node.conn[0].timeo.noop_out_timeout", 30)));
        assert!(tunnel.nvme_tcp().contains(&("fast_io_fail_tmo", 10)));
    }
}
