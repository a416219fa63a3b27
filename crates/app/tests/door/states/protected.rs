//! States in which nothing may be written.

use super::*;

/// States that no option lifts without the id of a device, which loop devices have not.
pub const PROTECTED: &[State] = &[
    // Devices in use.
    State { name: "mounted ext4", build: |place| mounted(place, "ext4") },
    State { name: "mounted xfs", build: |place| mounted(place, "xfs") },
    State { name: "mounted btrfs", build: |place| mounted(place, "btrfs") },
    State {
        name: "symbolic link to a mounted device",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            std::os::unix::fs::symlink(&standing.target, place.join("link")).unwrap();
            standing.target = place.join("link");
            standing
        },
    },
    State {
        name: "another node of a mounted device",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            let node = place.join("node");
            let numbers = tool("stat", &["-c", "%Hr %Lr", text(&standing.target)]);
            let (major, minor) = numbers.split_once(' ').unwrap();
            tool("mknod", &[text(&node), "b", major, minor]);
            standing.target = node;
            standing
        },
    },
    State {
        name: "mounted in another namespace",
        build: |place| {
            let mut standing = device(place, |file| mkfs("ext4", text(file)));
            mount_elsewhere(place, &mut standing);
            standing
        },
    },
    State {
        name: "swap on a device",
        build: |place| {
            let mut standing = device(place, |_| {});
            let swap = Swap::on(text(&standing.target));
            standing.guards.push(Box::new(swap));
            standing
        },
    },
    State {
        name: "device behind a mounted loop device",
        build: |place| {
            let standing = device(place, |_| {});
            let target = standing.target.clone();
            under_a_mounted_part(place, target, standing)
        },
    },
    State {
        name: "device behind a loop device that nobody uses",
        build: |place| {
            let mut standing = device(place, |_| {});
            let part = part_of(&standing.target, MIB);
            standing.guards.push(Box::new(part));
            standing
        },
    },
    State {
        name: "loop device over a mounted device",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            let part = part_of(&standing.target, 64 * MIB);
            standing.target = part.device.clone().into();
            standing.guards.push(Box::new(part));
            standing
        },
    },
    State {
        name: "loop device over a device that is mounted in another namespace",
        build: |place| {
            let mut standing = device(place, |file| mkfs("ext4", text(file)));
            mount_elsewhere(place, &mut standing);
            let part = part_of(&standing.target, 64 * MIB);
            standing.target = part.device.clone().into();
            standing.guards.push(Box::new(part));
            standing
        },
    },
    State {
        name: "loop device over a device with a file system",
        build: |place| {
            let mut standing = signed(place, "ext4");
            let part = part_of(&standing.target, 64 * MIB);
            standing.target = part.device.clone().into();
            standing.guards.push(Box::new(part));
            standing
        },
    },
    State {
        name: "second loop device over the file of a mounted one",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            let second = part_of(&standing.kept[0], 64 * MIB);
            standing.target = second.device.clone().into();
            standing.guards.push(Box::new(second));
            standing
        },
    },
    State {
        name: "part of a file that holds a file system",
        build: |place| {
            let disk = blank(place, "disk");
            mkfs("ext4", text(&disk));
            let part = part_of(&disk, 64 * MIB);
            Standing { target: part.device.clone().into(), kept: vec![disk], guards: vec![Box::new(part)] }
        },
    },
    State {
        name: "disk with a mounted partition",
        build: |place| {
            let mut standing = device(place, |_| {});
            let disk = standing.target.clone();
            let part = Partition::of(&mut standing, &disk);
            mkfs("ext4", text(&part));
            let mount = Mount::new(text(&part), &place.join("mounted"), &[]);
            mount.settle();
            standing.guards.push(Box::new(mount));
            standing
        },
    },
    State {
        name: "disk with an empty partition",
        build: |place| {
            let mut standing = device(place, |_| {});
            let disk = standing.target.clone();
            Partition::of(&mut standing, &disk);
            standing
        },
    },
    State {
        name: "partition of a disk with a file system of its own",
        build: |place| {
            let mut standing = signed(place, "ext4");
            let disk = standing.target.clone();
            standing.target = Partition::of(&mut standing, &disk);
            standing
        },
    },
    State {
        name: "partition of a disk behind a loop device",
        build: |place| {
            let mut standing = device(place, |_| {});
            let disk = standing.target.clone();
            let part = Partition::of(&mut standing, &disk);
            let over = part_of(&standing.target, 200 * MIB);
            standing.guards.push(Box::new(over));
            standing.target = part;
            standing
        },
    },
    State {
        name: "device that a program has open to write",
        build: |place| held_device(place, "f=os.open(PATH, os.O_RDWR)"),
    },
    State {
        name: "device that a program has mapped and closed",
        build: |place| {
            held_device(place, "f=os.open(PATH, os.O_RDWR); m=mmap.mmap(f, 1<<20); os.closerange(3, 99)")
        },
    },
    State {
        name: "device that a program has mapped to read by a descriptor that may write",
        build: |place| {
            held_device(
                place,
                "f=os.open(PATH, os.O_RDWR); m=mmap.mmap(f, 1<<20, prot=mmap.PROT_READ); os.closerange(3, 99)",
            )
        },
    },
    State {
        name: "device that a thread with descriptors of its own has open",
        build: |place| {
            let own = "assert ctypes.CDLL(None).unshare(0x400) == 0";
            held_device(place, &in_a_thread(own, "time.sleep(600)"))
        },
    },
    State {
        name: "device that a program has open whose first thread has ended",
        // The last thread that is left tells; 60 is exit(2), of one thread.
        build: |place| held_device(place, &in_a_thread("pass", "ctypes.CDLL(None).syscall(60, 0)")),
    },
    State {
        name: "device that a program has claimed",
        build: |place| {
            let mut standing = device(place, |_| {});
            let code = format!("f=os.open('{}', os.O_RDONLY|os.O_EXCL)", standing.target.display());
            standing.guards.push(Box::new(Program::python(&code)));
            standing
        },
    },
    State {
        name: "device that a program has locked",
        build: |place| {
            let mut standing = device(place, |_| {});
            let code = format!(
                "f=os.open('{}', os.O_RDONLY); fcntl.flock(f, fcntl.LOCK_EX)",
                standing.target.display()
            );
            standing.guards.push(Box::new(Program::python(&code)));
            standing
        },
    },
    State {
        name: "read-only device",
        build: |place| {
            let disk = blank(place, "disk");
            let over = Loop::from(&["--read-only", text(&disk)]);
            Standing { target: over.device.clone().into(), kept: vec![disk], guards: vec![Box::new(over)] }
        },
    },
    // Devices with something on them.
    State { name: "ext4", build: |place| signed(place, "ext4") },
    State { name: "xfs", build: |place| signed(place, "xfs") },
    State { name: "btrfs", build: |place| signed(place, "btrfs") },
    State { name: "swap area", build: |place| device(place, |file| drop(tool("mkswap", &[text(file)]))) },
    State {
        name: "LUKS2",
        build: |place| {
            device(place, |file| {
                let key = place.join("key");
                std::fs::write(&key, "a key").unwrap();
                let quick = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
                let mut arguments = vec!["luksFormat", "--batch-mode", "--type", "luks2"];
                arguments.extend(quick);
                arguments.extend(["--key-file", text(&key), text(file)]);
                tool("cryptsetup", &arguments);
            })
        },
    },
    State {
        name: "LVM physical volume",
        build: |place| {
            // The label of LVM2's on-disk format, in the second sector; libblkid asks for its checksum.
            device(place, |file| {
                let mut sector = [0u8; 512];
                sector[..8].copy_from_slice(b"LABELONE");
                sector[8] = 1;
                sector[20] = 32;
                sector[24..32].copy_from_slice(b"LVM2 001");
                put(file, 512, &sector);
            })
        },
    },
    State {
        name: "md member",
        build: |place| {
            // The superblock of version 1.2, 4 KiB from the start (the kernel's md_p.h): magic and version.
            device(place, |file| put(file, 4096, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]))
        },
    },
    State { name: "GPT", build: |place| device(place, |file| table(file, "gpt")) },
    State { name: "MBR", build: |place| device(place, |file| table(file, "dos")) },
    State {
        name: "GPT without its protective MBR",
        build: |place| {
            device(place, |file| {
                table(file, "gpt");
                put(file, 0, &[0; 512]);
            })
        },
    },
    State {
        name: "lone backup GPT",
        build: |place| {
            device(place, |file| {
                table(file, "gpt");
                put(file, 0, &[0; 64 * 512]);
            })
        },
    },
    State {
        name: "qcow2 image",
        build: |place| {
            device(place, |file| {
                let image = place.join("image");
                tool("qemu-img", &["create", "-q", "-f", "qcow2", text(&image), "10M"]);
                put(file, 0, &std::fs::read(&image).unwrap());
            })
        },
    },
    State {
        name: "bcachefs",
        build: |place| {
            // Its magic number, 24 bytes into the superblock at 4 KiB (bcachefs_format.h).
            device(place, |file| {
                put(file, 4096 + 24, &[0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9]);
                put(file, 4096 + 32, &[0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef]);
            })
        },
    },
    State {
        name: "second copy of btrfs' superblock",
        build: |place| {
            device(place, |file| {
                mkfs("btrfs", text(file));
                put(file, 0, &vec![0; MIB as usize]);
            })
        },
    },
    State {
        name: "backup superblocks of ext4",
        build: |place| {
            device(place, |file| {
                mkfs("ext4", text(file));
                put(file, 0, &vec![0; 2 * MIB as usize]);
            })
        },
    },
    State {
        name: "data at the beginning",
        build: |place| device(place, |file| put(file, 70_000, b"a database")),
    },
    State {
        name: "data at the end",
        build: |place| device(place, |file| put(file, SIZE - 4096, b"a database")),
    },
    // Files.
    State {
        name: "file behind a mounted loop device",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            standing.target = standing.kept[0].clone();
            standing
        },
    },
    State {
        name: "hard link to a file behind a mounted loop device",
        build: |place| {
            let mut standing = mounted(place, "ext4");
            std::fs::hard_link(&standing.kept[0], place.join("hard")).unwrap();
            standing.target = place.join("hard");
            standing
        },
    },
    State {
        name: "symbolic link to a file behind a loop device",
        build: |place| {
            let mut standing = device(place, |_| {});
            std::os::unix::fs::symlink(&standing.kept[0], place.join("link")).unwrap();
            standing.target = place.join("link");
            standing
        },
    },
    State {
        name: "file behind a loop device over which another one is mounted",
        build: |place| {
            let standing = device(place, |_| {});
            let target = standing.kept[0].clone();
            under_a_mounted_part(place, target, standing)
        },
    },
    State {
        name: "swap file",
        build: |place| {
            let mut standing = file(place);
            tool("chmod", &["600", text(&standing.target)]);
            let swap = Swap::on(text(&standing.target));
            standing.guards.push(Box::new(swap));
            standing
        },
    },
    State {
        name: "file that a program has open",
        build: |place| opened(place, "f=os.open(PATH, os.O_RDWR)"),
    },
    State {
        name: "file that a program has open to read",
        build: |place| opened(place, "f=os.open(PATH, os.O_RDONLY)"),
    },
    State {
        name: "file that a program has mapped",
        build: |place| opened(place, "f=os.open(PATH, os.O_RDWR); m=mmap.mmap(f, 0); os.closerange(3, 99)"),
    },
    State {
        name: "file on an overlay that is behind a mounted loop device below it",
        build: |place| overlaid(place, mounted(&upper(place), "ext4")),
    },
    State {
        name: "file on an overlay that is behind a loop device below it, through a bind mount of its own",
        build: |place| {
            let mut standing = overlaid(place, device(&upper(place), |_| {}));
            let bound = place.join("bound");
            File::create(&bound).unwrap();
            tool("mount", &["--bind", text(&standing.target), text(&bound)]);
            standing.guards.push(Box::new(Mount(bound.clone())));
            standing.target = bound;
            standing
        },
    },
    State {
        name: "file on an overlay that a program has open below it",
        build: |place| overlaid(place, opened(&upper(place), "f=os.open(PATH, os.O_RDWR)")),
    },
    State {
        name: "file on an overlay that a program has mapped below it",
        build: |place| {
            let code = "f=os.open(PATH, os.O_RDWR); m=mmap.mmap(f, 0); os.closerange(3, 99)";
            overlaid(place, opened(&upper(place), code))
        },
    },
    State {
        name: "loop device over a file on an overlay that another one is over below it",
        build: |place| {
            let mut standing = overlaid(place, device(&upper(place), |_| {}));
            let second = part_of(&standing.target, 64 * MIB);
            standing.target = second.device.clone().into();
            standing.guards.push(Box::new(second));
            standing
        },
    },
    State {
        name: "file that a program has locked",
        build: |place| opened(place, "f=os.open(PATH, os.O_RDWR); fcntl.lockf(f, fcntl.LOCK_EX)"),
    },
    State {
        name: "program that runs",
        build: |place| {
            let path = place.join("sleeping");
            std::fs::copy("/bin/sleep", &path).unwrap();
            let child = Command::new(&path).arg("600").spawn().unwrap();
            Standing { target: path.clone(), kept: vec![path], guards: vec![Box::new(Program(child))] }
        },
    },
    State {
        name: "immutable file",
        build: |place| {
            let mut standing = file(place);
            tool("chattr", &["+i", text(&standing.target)]);
            let guard = Immutable(standing.target.clone());
            standing.guards.push(Box::new(guard));
            standing
        },
    },
    State {
        name: "file on a read-only mount",
        build: |place| {
            let mut standing = device(place, |file| mkfs("ext4", text(file)));
            let directory = place.join("mounted");
            let mount = Mount::new(text(&standing.target), &directory, &[]);
            std::fs::write(directory.join("file"), vec![7; 4 * MIB as usize]).unwrap();
            tool("mount", &["-o", "remount,ro", text(&directory)]);
            standing.guards.push(Box::new(mount));
            standing.target = directory.join("file");
            standing
        },
    },
];
