#!/bin/bash
# Records what Ebbtide reads of a host as one text file, for tests: ./record.sh > NAME.tree
# Lines: `d PATH`, `l PATH -> TARGET`, `f PATH` followed by the file's lines, each with `|` in front.
file() { [ -r "$1" ] && v=$(timeout 2 cat "$1" 2>/dev/null | tr -d '\0') && { echo "f $1"; [ -n "$v" ] && sed 's/^/|/' <<<"$v"; }; }
link() { [ -L "$1" ] && echo "l $1 -> $(readlink "$1")"; }
for f in cpuinfo diskstats loadavg mdstat meminfo partitions self/mountinfo stat swaps sys/kernel/hostname sys/kernel/osrelease; do file /proc/$f; done
for p in /proc/[0-9]*; do
  case $(cat "$p/comm" 2>/dev/null) in ext4lazyinit|md*_resync|md*_raid*|md*_recovery) file "$p/comm"; file "$p/stat"; file "$p/io";; esac
done
device() {
  [ -d "$1" ] || return
  for a in dev size ro removable start partition alignment_offset uevent; do file "$1/$a"; done
  for a in scheduler read_ahead_kb nr_requests rotational logical_block_size physical_block_size minimum_io_size optimal_io_size max_sectors_kb write_cache; do file "$1/queue/$a"; done
  for a in name uuid suspended; do file "$1/dm/$a"; done
  for a in backing_file offset sizelimit; do file "$1/loop/$a"; done
  for a in level chunk_size degraded sync_action sync_completed raid_disks array_state layout metadata_version; do file "$1/md/$a"; done
  for m in "$1"/md/dev-*; do [ -d "$m" ] && { file "$m/state"; file "$m/slot"; }; done
  file "$1/wwid"; file "$1/serial"
  link "$1/device"
  for a in model serial vendor wwid transport address queue_depth subsysnqn vpd_pg80; do file "$(readlink -f "$1/device")/$a"; done
  for h in "$1"/holders/* "$1"/slaves/*; do link "$h"; done
}
for f in sys_vendor product_name; do file /sys/class/dmi/id/$f; done
for b in /sys/block/*; do
  case $b in */loop*) [ -e "$b/loop/backing_file" ] || continue;; esac
  link "$b"; r=$(readlink -f "$b"); device "$r"
  for p in "$r"/*/partition; do [ -e "$p" ] && device "$(dirname "$p")"; done
done
for b in /sys/dev/block/*; do case $(readlink "$b") in */loop*) [ -e "$b/loop/backing_file" ] || continue;; esac; link "$b"; done
for b in /sys/fs/btrfs/*-*; do
  for l in "$b"/devices/*; do link "$l"; done
  for a in "$b"/allocation/data/*/total_bytes "$b"/devinfo/*/missing; do file "$a"; done
done
for f in /run/udev/data/b*; do file "$f"; done
for l in /dev/disk/by-id/* /dev/mapper/*; do link "$l"; done
exit 0
