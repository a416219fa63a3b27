//! A storage host with SSH, and clients whose keys it knows, on a network of their own.

use super::guests::{QUICK_KEYS, guest_on, laboratory, script};
use ebbtide_lab::Laboratory;
use ebbtide_lab::disks::Disk;
use ebbtide_lab::guest::Guest;
use ebbtide_lab::network::{Network, address};

/// The disk of the storage host, by its link there.
pub const VOLUME: &str = "/dev/disk/by-id/virtio-volume";

/// Name and address of a guest; NAME and NUMBER are filled in. Directories of the image are root's alone, and a user has to get at programs.
const HOST: &str = r#"
    hostname NAME
    printf '10.77.0.1 store\n10.77.0.2 desk\n10.77.0.3 other\n' >>/etc/hosts
    ip address add 10.77.0.NUMBER/24 dev eth0; ip link set eth0 up
    find / -xdev -type d -perm 700 -not -path '/root*' -exec chmod 755 {} +
    printf '%032x\n' NUMBER >/etc/machine-id
    echo 'InitiatorName=iqn.2026-11.ebbtide.test:NAME' >/etc/iscsi/initiatorname.iscsi
    mkdir -p /root/.ssh; chmod 700 /root/.ssh
"#;

/// An SSH server, and a user who has nothing but SSH and sudo.
const STORE: &str = r#"
    mkdir -p /etc/ssh /run/sshd /home/ada/.ssh /etc/pam.d
    ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/host_key
    printf 'HostKey /etc/ssh/host_key\nUsePAM no\n' >/etc/ssh/sshd_config
    grep -q '^sshd:' /etc/passwd || echo 'sshd:x:105:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
    echo 'ada:x:1000:1000::/home/ada:/bin/bash' >>/etc/passwd
    echo 'ada:*:19000:0:99999:7:::' >>/etc/shadow
    echo 'ada:x:1000:' >>/etc/group
    chown -R 1000:1000 /home/ada; chmod 700 /home/ada/.ssh
    echo 'ada ALL=(root) NOPASSWD: ALL' >/etc/sudoers.d/ada; chmod 440 /etc/sudoers.d/ada
    printf 'auth sufficient pam_permit.so\naccount sufficient pam_permit.so\nsession sufficient pam_permit.so\n' >/etc/pam.d/sudo; cp /etc/pam.d/sudo /etc/pam.d/other
    /usr/sbin/sshd -f /etc/ssh/sshd_config
"#;

/// A client's key for the storage host.
const CLIENT: &str = r#"
    ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
    printf 'StrictHostKeyChecking accept-new\n' >/root/.ssh/config
    modprobe iscsi_tcp; iscsid
    cat /root/.ssh/id_ed25519.pub
"#;

/// A storage host and clients on one network.
pub struct Net {
    /// The test's name, which its guests are named by: several tests run at once.
    test: &'static str,
    laboratory: Laboratory,
    network: Network,
    pub store: Guest,
}

impl Net {
    /// A storage host with a disk of `size` bytes, and SSH.
    pub fn new(test: &'static str, size: u64) -> Net {
        Net::with(laboratory(), test, size)
    }

    /// [`Net::new`] with guests of `laboratory`.
    pub fn with(laboratory: Laboratory, test: &'static str, size: u64) -> Net {
        let network = Network::default();
        let disk = Disk::plain("volume", size);
        let mut store = guest_on(&laboratory, &network, 1, &format!("attach-{test}-store"), vec![disk]);
        script(&mut store, &HOST.replace("NAME", "store").replace("NUMBER", "1")).unwrap();
        script(&mut store, STORE).unwrap();
        assert_eq!(address(1), "10.77.0.1");
        Net { test, laboratory, network, store }
    }

    /// A client whose key the storage host knows.
    pub fn client(&mut self, number: u8, name: &str) -> Guest {
        let mut client = guest_on(
            &self.laboratory,
            &self.network,
            number,
            &format!("attach-{}-{name}", self.test),
            Vec::new(),
        );
        script(&mut client, &HOST.replace("NAME", name).replace("NUMBER", &number.to_string())).unwrap();
        let key = script(&mut client, &format!("{QUICK_KEYS}{CLIENT}")).unwrap();
        let let_in = format!(
            "for home in /root /home/ada; do echo '{}' >>$home/.ssh/authorized_keys; chmod 600 $home/.ssh/authorized_keys; done; chown 1000 /home/ada/.ssh/authorized_keys",
            key.trim()
        );
        script(&mut self.store, &let_in).unwrap();
        client
    }
}
