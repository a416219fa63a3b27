# Everything above is what is wanted; what follows is the same for every array.
#
#   start    starts the array, or makes it where all of its disks are blank, and mounts it
#   note     notes which members are up to date, before a shutdown
#   install  installs the programs that are missing, has the unit started at each boot, and starts it
#
# Exit status: 0 it is mounted; 1 it is not, and why is said; 2 wrong usage. Nothing but its own disks is looked at, and a
# disk that carries anything that is not this array's is not written.

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
umask 022
state=/var/lib/ebbtide/boot/$name-${uuid%%:*}
device=/dev/md/$name
log=/run/ebbtide-$name.log

say() {
    echo "ebb-$name: $*"
    echo "$*" >>"$log"
}

refuse() {
    say "not mounted: $*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

missing() {
    for program in mdadm blkid wipefs findmnt flock od awk "mkfs.$filesystem"; do
        have "$program" || echo "$program"
    done | tr '\n' ' '
}

# Packages, where there is a network and something that installs. Their names are words, and one argument each.
# shellcheck disable=SC2086
install_programs() {
    [ -n "$(missing)" ] || return 0
    say "installing $packages, for what is missing: $(missing)"
    if have apt-get; then
        export DEBIAN_FRONTEND=noninteractive
        apt-get -q -o DPkg::Lock::Timeout=300 update
        apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends install $packages
    elif have dnf; then
        dnf -q -y install $packages
    elif have yum; then
        yum -q -y install $packages
    elif have zypper; then
        zypper --quiet --non-interactive install $packages
    fi
    [ -z "$(missing)" ] || refuse "missing, and could not be installed: $(missing)"
}

# The disks that are asked for, by the kernel's name of now, each once. Links below /dev/disk have no blanks in their names, and
# a pattern is to become the links that it fits.
# shellcheck disable=SC2086
candidates() {
    for link in $members; do
        # Of a kind only whole disks are meant.
        case $exact$link in no*-part[0-9]*) continue ;; esac
        [ -b "$link" ] && readlink -f "$link"
    done | awk '!seen[$0]++'
}

# Which of the links that are named one by one are not there.
# shellcheck disable=SC2086
absent() {
    [ "$exact" = yes ] || return 0
    for link in $members; do [ -b "$link" ] || echo "$link"; done | tr '\n' ' '
}

value() { sed -n "s/^$1=//p" | head -n 1; }

# What the device $1 says of the array that it is a member of.
examined() { mdadm --examine --export "$1" 2>/dev/null; }

# The kernel's node of the array, where it runs or waits for members.
node() {
    for md in /sys/class/block/md*; do
        [ -e "$md/md" ] || continue
        [ "$(mdadm --detail --export "/dev/${md##*/}" 2>/dev/null | value MD_UUID)" = "$array" ] || continue
        echo "/dev/${md##*/}"
        return
    done
}

runs() { [ -n "$1" ] && [ "$(cat "/sys/class/block/${1##*/}/md/array_state" 2>/dev/null)" != inactive ]; }

# Who uses the disk $1 or a partition of it; nothing where nobody does.
user_of() {
    for at in "/sys/class/block/${1##*/}" "/sys/class/block/${1##*/}/${1##*/}"*; do
        [ -e "$at/dev" ] || continue
        at_node=/dev/${at##*/}
        if grep -q "^[0-9]* [0-9]* $(cat "$at/dev") " /proc/self/mountinfo || grep -q "^$at_node " /proc/mounts; then
            echo "$at_node is mounted"
            return
        fi
        if grep -q "^$at_node " /proc/swaps; then
            echo "$at_node is swapped to"
            return
        fi
        for holder in "$at/holders/"*; do
            [ -e "$holder" ] || continue
            echo "$at_node is used by ${holder##*/}"
            return
        done
    done
}

# Whether the device $1 reads as zeros at its beginning, at its end, and at 64 places between; a read that fails is no zero.
reads_zeros() {
    size=$(blockdev --getsize64 "$1" 2>/dev/null)
    [ "${size:-0}" -gt 0 ] || return 1
    first=$(
        {
            piece="dd if=$1 bs=65536 status=none"
            $piece count=16 || echo unread
            blocks=$((size / 65536)) at=0
            while [ "$at" -lt 64 ]; do
                $piece skip=$((blocks * at / 64)) count=1 || echo unread
                at=$((at + 1))
            done
            [ "$blocks" -le 16 ] || $piece skip=$((blocks - 16)) || echo unread
        } 2>/dev/null | tr -d '\000' | head -c 1 | od -A n -t x1
    )
    [ -z "$first" ]
}

# What the disk $1 carries; nothing where it is blank.
content_of() {
    for part in "/sys/class/block/${1##*/}/${1##*/}"*; do
        [ ! -e "$part/partition" ] || { echo "$1 has partitions" && return; }
    done
    found=$(blkid -p -o export "$1" 2>/dev/null)
    case $? in
        0) echo "$1 carries $(echo "$found" | sed -n 's/^TYPE=//p; s/^PTTYPE=/a partition table: /p' | head -n 1)" && return ;;
        # Nothing that it knows.
        2) ;;
        # Two formats at once, or a disk that cannot be read.
        *) echo "$1 carries what blkid is not sure of" && return ;;
    esac
    found=$(wipefs -n -p "$1" 2>/dev/null) || { echo "$1 cannot be looked at by wipefs" && return; }
    found=$(echo "$found" | grep -v '^#' | head -n 1)
    [ -z "$found" ] || { echo "$1 carries a signature ($found)" && return; }
    reads_zeros "$1" || echo "$1 carries something that has no name: it does not read as zeros"
}

# Sorts the candidates: own, blank, both in their order, and what the others carry.
look() {
    own='' owns=0 blank='' blanks=0 others='' used=''
    for disk in $(candidates); do
        case $(examined "$disk" | value MD_UUID) in "$uuid":*) own="$own $disk" owns=$((owns + 1)) && continue ;; esac
        user=$(user_of "$disk")
        if [ -n "$user" ]; then
            # Of a kind is the machine's own disk, too. One that was named was meant.
            if [ "$exact" = yes ]; then others="$others$user; "; else used="$used$user; "; fi
            continue
        fi
        content=$(content_of "$disk")
        if [ -n "$content" ]; then
            others="$others$content; "
        else
            blank="$blank $disk" blanks=$((blanks + 1))
        fi
    done
    others=${others%; } used=${used%; }
}

# Whether all disks that are to be waited for are there: own ones, or blank ones. The machine's own disk is neither.
# shellcheck disable=SC2086
all_there() {
    [ -z "$(absent)" ] || return 1
    set -- $own
    [ "$#" -gt 0 ] || { [ "$blanks" -ge "$least" ] && return 0 || return 1; }
    [ "$owns" -ge "$(examined "$1" | value MD_DEVICES)" ]
}

# Looks until all are there, or for as long as they are waited for.
settle() {
    left=$wait
    while :; do
        if have udevadm; then udevadm settle --timeout=30; fi
        look
        if all_there || [ "$left" -le 0 ]; then return; fi
        sleep 1
        left=$((left - 1))
    done
}

# Of each own disk: its place in the array, how many events it has seen, its node; of a place the newest first.
places() {
    for disk in $own; do
        mdadm --examine "$disk" | awk -v d="$disk" '$1 == "Events" { e = $3 } /Device Role : Active/ { r = $NF } END { if (r != "") print r, e, d }'
    done | sort -k 1,1n -k 2,2nr
}

# shellcheck disable=SC2086
assemble() {
    array=$(for disk in $own; do examined "$disk" | value MD_UUID; done | sort -u)
    [ "$(echo "$array" | wc -l)" -eq 1 ] || refuse "members of several arrays are here, made by several machines or at several times:$own. Detach those of the others"
    running=$(node)
    twice=$(for disk in $own; do examined "$disk" | value MD_DEV_UUID; done | sort | uniq -d)
    [ -z "$twice" ] || refuse "clones of its members are here, and nothing tells which half is newer:$own. Detach the clones"
    twice=$(places | awk 'NR > 1 && $1 == r { print $2 == e ? "same" : "older", $3; next } { r = $1; e = $2 }')
    case $twice in *same*) refuse "two of its members have the same place in it, and neither is newer:$own. Detach the one that is not to be used" ;; esac
    # One that was replaced, and is here still.
    for old in $(echo "$twice" | sed -n 's/^older //p'); do
        say "left alone: $old, which another member has replaced"
        own=$(for disk in $own; do [ "$disk" = "$old" ] || printf ' %s' "$disk"; done)
    done
    set -- $own
    wanted=$(examined "$1" | value MD_DEVICES)
    if [ "$#" -lt "$wanted" ]; then
        [ "$redundant" = yes ] || refuse "$# of its $wanted members are there ($*) and it can lose none; blank:${blank:- none}${others:+; $others}. Nothing was changed"
        newest=$(sed -n "s/^$array//p" "$state/members" 2>/dev/null)
        known=$(for disk in "$@"; do case $newest in *"$(examined "$disk" | value MD_DEV_UUID)"*) echo yes ;; esac; done)
        [ -n "$newest$known" ] && [ -z "$known" ] && refuse "$* was not in it when it ran last, so that the others have newer data: attach those. If they are lost: rm $state/members"
    fi
    # By udev, as it found the members.
    runs "$running" && return
    [ -z "$running" ] || mdadm --quiet --stop "$running"
    mdadm --quiet --assemble "$device" --run --uuid="$array" "$@" || refuse "mdadm cannot assemble it of $*, of $wanted members"
}

# Notes which members of the running array $1 are up to date.
# shellcheck disable=SC2086
note() {
    newest=$(for at in "/sys/class/block/${1##*/}/md/dev-"*; do case $(cat "$at/state" 2>/dev/null) in *in_sync*) examined "/dev/${at##*/dev-}" | value MD_DEV_UUID ;; esac; done)
    { mkdir -p "$state" && echo "$array" $newest >"$state/members.new" && sync "$state/members.new" && mv -f "$state/members.new" "$state/members"; } || say "cannot write $state/members"
}

# shellcheck disable=SC2086
create() {
    [ "$blanks" -ge "$least" ] || refuse "it takes at least $least blank disks; there are $blanks:${blank:- none}${used:+; $used}"
    if [ "$class" = persistent ] && [ -e "$state/made" ]; then
        refuse "it was made on $(cat "$state/made") of volumes that are not there any more; to make it anew of$blank, remove $state/made"
    fi
    set -- $blank
    # What has no note was never filled.
    mkdir -p "$state"
    rm -f "$state/made"
    sync
    force=
    [ "$#" -gt 1 ] || force=--force
    # Of two machines with this text each has its own.
    array=$uuid:$(od -A n -N 4 -t x4 /dev/urandom | tr -d ' ')
    [ ! -e "$device" ] || device=/dev/md/ebb-$name
    mdadm --create "$device" $create --uuid="$array" --name="$name" --raid-devices="$#" $force "$@" ||
        refuse "mdadm cannot make it of $*"
    say "made of $*"
    own=$blank blank=''
}

# Makes the file system on $1 where the array is new: nobody ever noted one, and nothing is on it.
# shellcheck disable=SC2086
fill() {
    if have udevadm; then udevadm settle --timeout=30; fi
    found=$(blkid -p -o value -s UUID "$1" 2>/dev/null)
    [ "$found" != "$filesystem_uuid" ] || return 0
    [ ! -e "$state/made" ] ||
        refuse "$1 has another file system than its own (uuid ${found:-none}), and none is made over what may be somebody's"
    [ "$(find "/sys/class/block/${1##*/}/slaves/" -type l | wc -l)" -ge "$(mdadm --detail --export "$1" | value MD_DEVICES)" ] ||
        refuse "nothing is on it yet, and members are missing: it is not filled before they are all there"
    content=$(content_of "$1")
    [ -z "$content" ] || refuse "$content, and nothing is removed here. To see what is there: lsblk -f $1, blkid -p $1"
    "mkfs.$filesystem" $mkfs "$1" || refuse "mkfs.$filesystem fails on $1"
    say "new $filesystem on $1"
}

# Words THING.FILE=VALUE, where THING is `array` ($1) or `disk` (each of its members) and FILE one of its queue.
tune() {
    for setting in $settings; do
        file=${setting%%=*} to=${setting#*=}
        devices=$1
        case $file in disk.*) devices=$(ls "/sys/class/block/${1##*/}/slaves") ;; esac
        for at in $devices; do
            # A partition has the queue of its disk.
            queue=$(readlink -f "/sys/class/block/${at##*/}") && [ -d "$queue/queue" ] || queue=${queue%/*}
            echo "$to" 2>/dev/null >"$queue/queue/${file#*.}" || say "$at does not take $to as ${file#*.}"
        done
    done
}

# What is mounted at $mount.
mounted() { findmnt -n -o SOURCE --mountpoint "$mount" | tail -n 1; }

# Refuses a mount point that cannot be one, before anything is made.
check_mount() {
    real=$(readlink -m "$mount")
    [ "$real" = "$mount" ] || refuse "$mount leads to $real by a symbolic link: print this with --mount $real"
    given=$(findmnt -n -s -o SOURCE --mountpoint "$mount" | head -n 1)
    case $given in '' | "UUID=$filesystem_uuid" | "$device") ;; *) refuse "/etc/fstab mounts $given at $mount: one of the two has to go elsewhere" ;; esac
    above=$(findmnt -n -s -l -o OPTIONS,TARGET | while read -r given at; do
        case ",$given," in *,noauto,*) continue ;; esac
        case $mount in "${at%/}"/*) findmnt --mountpoint "$at" >/dev/null || echo "$at" ;; esac
    done | head -n 1)
    [ -z "$above" ] || refuse "$mount is below $above, which /etc/fstab mounts and which is not mounted"
    below=$(findmnt -n -l -o TARGET | while read -r at; do case $at in "$mount"/*) echo "$at" ;; esac; done | head -n 1)
    [ -z "$below" ] || [ -n "$(mounted)" ] || refuse "$below is mounted, and would be hidden by what is mounted at $mount"
    mkdir -p "$mount" || refuse "cannot make $mount"
}

start() {
    : >"$log"
    [ -z "$(missing)" ] || refuse "missing: $(missing); install $packages"
    settle
    [ -z "$used" ] || say "left alone: $used"
    check_mount
    if [ "$owns" -gt 0 ]; then
        assemble
    elif [ -n "$others" ]; then
        refuse "$others. Nothing was changed. To see what is there: lsblk -f, blkid -p DISK"
    elif [ -n "$(absent)" ]; then
        refuse "not there: $(absent)"
    elif [ -n "$(mounted)" ]; then
        refuse "$(mounted) is mounted at $mount"
    elif [ -n "$(ls -A "$mount")" ]; then
        refuse "$mount is not empty, and what is mounted there would hide that: move the files, or print this with another --mount"
    else
        create
    fi
    running=$(node)
    runs "$running" || refuse "it does not run"
    lost=$(cat "/sys/class/block/${running##*/}/md/degraded" 2>/dev/null || echo 0)
    if [ "$lost" -gt 0 ] && [ "$(cat "/sys/class/block/${running##*/}/md/sync_action")" = recover ]; then
        say "its redundancy is being built"
    elif [ "$lost" -gt 0 ]; then
        say "DEGRADED: $lost of its members missing; blank:${blank:- none}; to put one in: mdadm $running --add DISK, and where members= in $0 does not name it, its name there"
    fi
    for disk in "/sys/class/block/${running##*/}/slaves/"*; do
        candidates | grep -qx "/dev/${disk##*/}" || say "/dev/${disk##*/} is in it and was not looked for: write its name into members= in $0, or it may be left out next time"
    done
    for disk in $own; do
        [ -e "/sys/class/block/${running##*/}/slaves/${disk##*/}" ] || say "left out: $disk, which is older than the others; mdadm $running --add $disk writes over it"
    done
    tune "$running"
    mounted=$(mounted)
    case $mounted in
        "$running" | "$running"\[*) ;;
        '')
            [ -z "$(ls -A "$mount")" ] || say "$mount is not empty: what is in it is hidden from now on"
            fill "$running"
            mount -t "$filesystem" -o "$options" "$running" "$mount" ||
                refuse "$running cannot be mounted at $mount$([ -e "$state/made" ] || echo "; it never was: where its making was interrupted and nobody needs it, wipefs -a $running has it made anew")"
            [ -e "$state/made" ] || { mkdir -p "$state" && date -u +%Y-%m-%d >"$state/made" && sync; } || say "cannot write $state/made"
            ;;
        *) refuse "$mounted is mounted at $mount" ;;
    esac
    note "$running"
    say "$running is mounted at $mount"
}

install() {
    : >"$log"
    install_programs
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        systemctl -q enable "ebb-$name.service"
        systemctl start "ebb-$name.service"
    else
        start
        say "systemd does not run here: have $0 run at each boot, before what uses $mount"
    fi
}

# One at a time: the first boot and the unit may both want it.
[ "${1:-start}" = install ] || exec 9>"/run/ebbtide-$name.lock"
case ${1:-start} in
    start)
        if have flock; then flock -w 600 9 || refuse "somebody else has been at it for ten minutes"; fi
        start
        ;;
    note)
        array=$(cut -d ' ' -f 1 "$state/members")
        note "$(node)"
        ;;
    install) install ;;
    *)
        echo "usage: $0 [start | note | install]" >&2
        exit 2
        ;;
esac
