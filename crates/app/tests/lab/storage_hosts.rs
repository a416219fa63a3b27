//! Three storage hosts and a client on a network of their own: hosts export their disks over iSCSI to the client by its name, and to nobody else; any
//! of them can be cut from power or from the network.

use super::guests::laboratory;
use ebbtide_lab::Laboratory;
use ebbtide_lab::disks::Disk;
use ebbtide_lab::guest::Finished;
use ebbtide_lab::hardware::Hardware;
use ebbtide_lab::machine::Machine;
use ebbtide_lab::network::{Network, Place, address};
use ebbtide_model::remote::COPIES;
use std::fmt::Write;

/// Storage hosts.
pub const HOSTS: [&str; 3] = ["storage-a", "storage-b", "storage-c"];
/// Number of the client on the network; the hosts are 1 to 3.
const CLIENT: u8 = 4;
/// Name of the only initiator that may log in.
pub const INITIATOR: &str = "iqn.2026-11.org.ebbtide:client";

/// Exports the disks of a host, by LIO's configfs.
const EXPORT: &str = r#"
modprobe -a target_core_mod target_core_iblock iscsi_target_mod
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
mkdir -p /etc/target /var/target/alua /var/target/pr
core=/sys/kernel/config/target/core/iblock_0 group=/sys/kernel/config/target/iscsi/$TARGET/tpgt_1
mkdir -p $group
echo 0 >$group/attrib/authentication; echo 0 >$group/attrib/generate_node_acls
mkdir -p $group/acls/$INITIATOR
number=0
for disk in $DISKS; do
    mkdir -p $core/$disk
    echo -n udev_path=/dev/disk/by-id/virtio-$disk >$core/$disk/control
    echo 1 >$core/$disk/enable
    mkdir -p $group/lun/lun_$number $group/acls/$INITIATOR/lun_$number
    ln -s $core/$disk $group/lun/lun_$number/$disk
    ln -s $group/lun/lun_$number $group/acls/$INITIATOR/lun_$number/$disk
    number=$((number + 1))
done
mkdir -p $group/np/$ADDRESS:3260
echo 1 >$group/enable
"#;

/// How disks come to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// A script exports them over iSCSI, and open-iscsi logs in.
    Script,
    /// `ebb export` and `ebb attach`.
    Ebb,
}

/// All machines of a test.
pub struct Hosts {
    how: How,
    laboratory: Laboratory,
    storage: Vec<Hardware>,
    client: Hardware,
    disks: usize,
}

fn target(host: usize) -> String {
    format!("iqn.2026-11.org.ebbtide:{}", HOSTS[host])
}

/// The client's name for a disk of a host.
pub fn path(host: usize, disk: usize) -> String {
    format!("/dev/disk/by-path/ip-{}:3260-iscsi-{}-lun-{disk}", address(host as u8 + 1), target(host))
}

fn attachment(host: usize, disk: usize) -> String {
    format!("{}{disk}", HOSTS[host].trim_start_matches("storage-"))
}

fn name(disk: usize) -> String {
    format!("d{disk}")
}

/// Runs a script of bash, which must succeed; what it printed.
fn script(hardware: &mut Hardware, text: &str) -> Result<String, String> {
    let done = hardware.guest().and_then(|guest| guest.capture(&["bash", "-ec", text], b""));
    let Finished { status, output, errors } = done.map_err(|error| error.to_string())?;
    let (output, errors) = (String::from_utf8_lossy(&output), String::from_utf8_lossy(&errors));
    if status == 0 {
        Ok(output.into_owned())
    } else {
        Err(format!("status {status}: {output}{errors}\n{text}"))
    }
}

impl Hosts {
    /// Three hosts with so many disks of `bytes` each, exported, and a client with them attached.
    pub fn new(test: &str, how: How, disks: usize, bytes: u64) -> Hosts {
        let laboratory = laboratory();
        let network = Network::default();
        let machine = |number: u8, memory_mib: u32, disks: Vec<(String, u64)>| Machine {
            name: format!("test-{test}-{number}-{}", std::process::id()),
            memory_mib,
            cpus: if number == CLIENT { 2 } else { 1 },
            disks: disks.into_iter().map(|(name, size)| Disk::plain(&name, size)).collect(),
            place: Some(Place { network: network.clone(), number }),
            ..Machine::default()
        };
        let storage = (1..=3u8)
            .map(|number| {
                let own = (0..disks).map(|disk| (name(disk), bytes));
                // What a host keeps over boots: by what its exports are known.
                let state = (how == How::Ebb).then(|| ("state".to_owned(), 16 << 20));
                Hardware::new(&laboratory, machine(number, 256, own.chain(state).collect())).unwrap()
            })
            .collect();
        let client =
            Hardware::new(&laboratory, machine(CLIENT, 320, vec![("state".to_owned(), 256 << 20)])).unwrap();
        let mut hosts = Hosts { how, laboratory, storage, client, disks };
        for host in 0..HOSTS.len() {
            hosts.start_host(host);
        }
        hosts.start_client(true);
        hosts
    }

    /// Runs a script on the client, which must succeed; what it printed.
    pub fn tell(&mut self, text: &str) -> String {
        self.ask(text).unwrap()
    }

    /// Runs a script on the client.
    pub fn ask(&mut self, text: &str) -> Result<String, String> {
        script(&mut self.client, text)
    }

    /// Runs a script on a host, which must succeed; what it printed.
    pub fn tell_host(&mut self, host: usize, text: &str) -> String {
        script(&mut self.storage[host], text).unwrap()
    }

    fn network(number: u8) -> String {
        format!(
            "ip link set lo up; ip address add {}/24 dev eth0; ip link set eth0 up; hostname host{number}\n",
            address(number)
        )
    }

    /// Gives a host its power, and has it export its disks.
    pub fn start_host(&mut self, host: usize) {
        self.storage[host].boot(&self.laboratory).unwrap();
        let disks: Vec<String> = (0..self.disks).map(name).collect();
        let number = host as u8 + 1;
        let mut text = Self::network(number);
        match self.how {
            How::Script => {
                let (target, address, disks) = (target(host), address(number), disks.join(" "));
                write!(
                    text,
                    "TARGET={target} INITIATOR={INITIATOR} ADDRESS={address} DISKS='{disks}'\n{EXPORT}"
                )
                .unwrap();
            }
            How::Ebb => {
                text += "modprobe ext4; mkdir -p /var/lib/ebbtide\n\
                         blkid /dev/disk/by-id/virtio-state >/dev/null || mkfs.ext4 -q /dev/disk/by-id/virtio-state\n\
                         mount /dev/disk/by-id/virtio-state /var/lib/ebbtide\n";
                for disk in disks {
                    writeln!(
                        text,
                        "ebb export /dev/disk/by-id/virtio-{disk} --client {INITIATOR} --transport iscsi --listen {} --name {disk} --json >/root/{disk}.json",
                        address(number)
                    )
                    .unwrap();
                }
            }
        }
        script(&mut self.storage[host], &text).unwrap();
    }

    /// Takes a host's power away.
    pub fn kill_host(&mut self, host: usize) {
        self.storage[host].cut_power();
    }

    /// Cuts a host from the network, or joins it again: nothing that it sends arrives.
    pub fn cut_off(&mut self, host: usize, cut: bool) {
        let text =
            if cut { "tc qdisc replace dev eth0 root netem loss 100%" } else { "tc qdisc del dev eth0 root" };
        self.tell_host(host, text);
    }

    /// Of all that hosts and the client send, so many percent are lost; 0 ends that.
    pub fn lose(&mut self, percent: u32) {
        let text = match percent {
            0 => "tc qdisc del dev eth0 root 2>/dev/null || true".to_owned(),
            _ => format!("tc qdisc replace dev eth0 root netem loss {percent}%"),
        };
        for hardware in self.storage.iter_mut().chain([&mut self.client]).filter(|hardware| hardware.is_on())
        {
            script(hardware, &text).unwrap();
        }
    }

    /// Gives the client its power, and attaches what hosts export. What it keeps over boots is on a disk of its own.
    pub fn start_client(&mut self, new: bool) {
        self.client.boot(&self.laboratory).unwrap();
        let make = if new { "mkfs.ext4 -q /dev/disk/by-id/virtio-state\n" } else { "" };
        let mut text = format!(
            "{}modprobe -a ext4 xfs raid0 raid1 raid10 iscsi_tcp sch_netem\n{make}\
             mkdir -p /var/lib/ebbtide; mount /dev/disk/by-id/virtio-state /var/lib/ebbtide\n\
             for place in mdadm udev/rules.d; do mkdir -p /var/lib/ebbtide/etc/$place /etc/$place; done\n\
             touch /var/lib/ebbtide/etc/mdadm/mdadm.conf /var/lib/ebbtide/etc/fstab /etc/fstab\n\
             mount --bind /var/lib/ebbtide/etc/mdadm /etc/mdadm; cat /var/lib/ebbtide/etc/fstab >/etc/fstab\n\
             mkdir -p /etc/iscsi; echo InitiatorName={INITIATOR} >/etc/iscsi/initiatorname.iscsi; iscsid\n",
            Self::network(CLIENT)
        );
        for host in (0..HOSTS.len()).filter(|_| self.how == How::Script) {
            let node = format!("iscsiadm -m node -T {} -p {}:3260", target(host), address(host as u8 + 1));
            writeln!(text, "{node} -o new >/dev/null").unwrap();
            for (key, value) in COPIES.iscsi() {
                writeln!(text, "{node} -o update -n '{key}' -v {value}").unwrap();
            }
        }
        script(&mut self.client, &text).unwrap();
        self.attach();
    }

    /// Logs in at each host that is on and where the client is not logged in, and waits until all of them are attached.
    pub fn attach(&mut self) {
        if self.how == How::Ebb {
            return self.attach_by_ebb();
        }
        for host in (0..HOSTS.len()).filter(|host| self.storage[*host].is_on()).collect::<Vec<_>>() {
            let node = format!("iscsiadm -m node -T {} -p {}:3260", target(host), address(host as u8 + 1));
            let last = path(host, self.disks - 1);
            self.tell(&format!(
                "iscsiadm -m session 2>/dev/null | grep -q '{0} ' || {node} --login >/dev/null\n\
                 for i in $(seq 1800); do udevadm settle; s=$(basename $(readlink -f {last}) 2>/dev/null || true)\n\
                 [ -n \"$s\" ] && [ \"$(cat /sys/block/$s/device/state 2>/dev/null)\" = running ] && exit 0; sleep 0.1; done\n\
                 cat /sys/class/iscsi_session/*/state; exit 1",
                target(host)
            ));
        }
    }

    fn attach_by_ebb(&mut self) {
        for host in (0..HOSTS.len()).filter(|host| self.storage[*host].is_on()).collect::<Vec<_>>() {
            for disk in 0..self.disks {
                let said = self.tell_host(host, &format!("cat /root/{}.json", name(disk)));
                let export: serde_json::Value = serde_json::from_str(&said).unwrap();
                let place = format!(
                    "iscsi://{}:3260/{}",
                    address(host as u8 + 1),
                    export["target"].as_str().unwrap()
                );
                self.tell(&format!(
                    "ebb attach {place} --name {} --hold {}s",
                    attachment(host, disk),
                    COPIES.hold_s
                ));
            }
        }
    }

    /// The client's name for a disk of a host, as `ebb attach` has noted it.
    pub fn device(&mut self, host: usize, disk: usize) -> String {
        if self.how == How::Script {
            return path(host, disk);
        }
        let said = self.tell(&format!("cat /var/lib/ebbtide/attached/{}.json", attachment(host, disk)));
        let record: serde_json::Value = serde_json::from_str(&said).unwrap();
        record["device"].as_str().unwrap().to_owned()
    }

    /// Takes the client's power away.
    pub fn kill_client(&mut self) {
        self.client.cut_power();
    }
}
