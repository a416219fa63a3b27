# For a machine's first boot, as root: it makes one array with one file system of exactly as many blank disks as are wanted, and writes
# what brings it back into mdadm.conf and fstab. It starts, removes and writes to nothing that is there already.
# Exit status: 0 it is mounted; 1 it is not, and why is said.

failed() { say "failed: $*. What was made is left as it is: see lsblk -f and /proc/mdstat" || :; exit 1; }
settle() { if have udevadm; then udevadm settle --timeout=30; fi; }

# Refuses a mount point that cannot be one.
check_mount() {
    real=$(readlink -m "$mount")
    [ "$real" = "$mount" ] || refuse "$mount leads to $real by a symbolic link: print this with --mount $real"
    now=$(findmnt -n -o SOURCE --mountpoint "$mount" | tail -n 1)
    given=$(findmnt -n -s -o SOURCE --mountpoint "$mount" | head -n 1)
    if grep -qs "^# ebb: begin $name (" /etc/fstab; then
        [ -n "$now" ] && [ "UUID=$(blkid -p -o value -s UUID "${now%%\[*}")" = "$given" ] ||
            refuse "/etc/fstab has its lines already, and it is not mounted at $mount"
        say "it was made before, and is mounted at $mount: nothing to do"
        exit 0
    fi
    [ -z "$now" ] || refuse "$now is mounted at $mount"
    [ -z "$given" ] || refuse "/etc/fstab mounts $given at $mount"
    above=$(findmnt -n -s -l -o OPTIONS,TARGET | while read -r options at; do
        case ",$options,$mount" in
            *,noauto,*) ;;
            *,"${at%/}"/*) findmnt --mountpoint "$at" >/dev/null || echo "$at" ;;
        esac
    done | head -n 1)
    [ -z "$above" ] || refuse "$mount is below $above, which /etc/fstab mounts and which is not mounted"
    [ -z "$(ls -A "$mount" 2>/dev/null)" ] || refuse "$mount is not empty, and what is in it would be hidden"
}

# Where something on the disk $1 is mounted or swapped to.
in_use() { lsblk -n -r -o MOUNTPOINT "$1" | grep -m 1 .; }

# The disks that are asked for, each once: its link, the kernel's name, and, of a kind, where it is in use: such a one is not meant.
# shellcheck disable=SC2086
look() {
    for link in $members; do
        [ -b "$link" ] && disk=$(readlink -f "$link") || continue
        [ "$kind" = no ] || [ ! -e "/sys/class/block/${disk##*/}/partition" ] || continue
        echo "$link $disk $([ "$kind" = no ] || in_use "$disk")"
    done | awk '!seen[$2]++'
}

# Whether the disk $1 reads as zeros in its first 4 MiB, in 64 places, and in its last MiB; a read that fails is no zero.
zeros() {
    blocks=$(($(cat "/sys/class/block/${1##*/}/size") / 128)) at=0
    [ "$({
        dd if="$1" bs=1M count=4 || echo unread
        while [ "$at" -lt 64 ]; do
            dd if="$1" bs=64K count=1 skip=$((blocks * at / 64)) || echo unread
            at=$((at + 1))
        done
        [ "$blocks" -lt 16 ] || dd if="$1" bs=64K skip=$((blocks - 16)) || echo unread
    } 2>/dev/null | tr -d '\000' | head -c 1 | wc -c)" -eq 0 ]
}

# What the disk $1 carries or is used for.
content() {
    at=/sys/class/block/${1##*/}
    [ ! -e "$at/partition" ] || echo "is a partition"
    in_use "$1" | sed 's/.*/is in use (&)/'
    for other in "$at/${1##*/}"* "$at/holders/"*; do
        [ ! -e "$other/dev" ] || echo "${other##*/} is made of it"
    done
    # Of a loop device no holder tells, and it claims nothing.
    for other in /sys/block/loop*/loop/backing_file; do
        [ "$(readlink -f "$(cat "$other" 2>/dev/null)")" != "$1" ] || echo "$(echo "$other" | cut -d / -f 4) is made of it"
    done
    found=$(blkid -p -o export "$1" 2>/dev/null)
    # Status 2: nothing that it knows. Others: two formats at once, or a disk that cannot be read.
    case $? in
        0) echo "$found" | sed -n 's/^TYPE=/carries /p; s/^PTTYPE=/carries a partition table: /p; s/^LABEL=/label /p' | tr -cd '[:print:]\n' | sort ;;
        2) { wipefs -n -p "$1" 2>/dev/null || echo unread; } | grep -q '^[^#]' && echo "carries a signature that wipefs knows, or cannot be read" ;;
        *) echo "carries what blkid is not sure of" ;;
    esac
}

# Puts our line $2 at the end of the file $1, which is replaced as a whole.
put() {
    { [ ! -e "$1" ] || cp -p "$1" "$1.ebb"; } && { [ -z "$(tail -c 1 "$1" 2>/dev/null)" ] || echo >>"$1.ebb"; } &&
        printf '# ebb: begin %s (written by `ebb apply`)\n%s\n# ebb: end %s\n' "$name" "$2" "$name" >>"$1.ebb" &&
        sync && mv "$1.ebb" "$1" || failed "cannot write $1"
}

# Sets the file $2 of the queue of $1 to $3, now and whenever udev finds what $4 tells.
tune() {
    echo "$3" 2>/dev/null >"/sys/class/block/${1##*/}/queue/$2" || say "$1 does not take $3 as $2"
    echo "ACTION==\"add|change\", SUBSYSTEM==\"block\", $4, ATTR{queue/$2}=\"$3\"" >>"$rules" || failed "cannot write $rules"
}

[ "$(id -u)" = 0 ] || refuse "run it as root"
[ -z "$(missing)" ] || install_programs
exec 9>"/run/ebb-$name.lock"
flock -n 9 || refuse "it runs already"
conf=/etc/mdadm.conf rules=/etc/udev/rules.d/90-ebb-$name.rules
[ ! -d /etc/mdadm ] || conf=/etc/mdadm/mdadm.conf
check_mount
! grep -Eqs "^# ebb: begin $name \\(|^ARRAY[[:space:]]+(/dev/md/)?$name([[:space:]]|\$)" "$conf" || refuse "$conf has lines of an array $name already"
for at in "/dev/md/$name" "$rules"; do [ ! -e "$at" ] || refuse "$at is there already"; done
for at in "$conf" /etc/fstab; do [ ! -L "$at" ] && [ ! -e "$at.ebb" ] || refuse "$at is a symbolic link, or $at.ebb is there"; done
for at in "$conf" /etc/fstab; do (: >"$at.ebb") 2>/dev/null && rm "$at.ebb" || refuse "cannot write beside $at"; done

end=$(($(seconds) + wait))
until [ "$(look | awk 'NF == 2' | wc -l)" -ge "$wanted" ] || [ "$(seconds)" -ge "$end" ]; do sleep 1; done
settle
seen='' blank='' links='' count=0 blanks=0
for link in $members; do [ "$kind" = yes ] || [ -b "$link" ] || seen="$seen; $link is not there"; done
while read -r link disk used; do
    [ -n "$link" ] || continue
    [ -z "$used" ] || { seen="$seen; $disk is left alone, in use ($used)" && continue; }
    what=$(content "$disk" | paste -s -d , - | sed 's/,/, /g')
    [ -n "$what" ] || zeros "$disk" || what="is not zeros"
    seen="$seen; $disk ${what:-is blank}" count=$((count + 1))
    [ -n "$what" ] || { blank="$blank $disk" links="$links $link" blanks=$((blanks + 1)); }
done <<END
$(look)
END
[ "$count" -eq "$wanted" ] && [ "$blanks" -eq "$wanted" ] ||
    refuse "it takes $wanted blank disks, and of $count that are there $blanks are blank: ${seen#; }"
mkdir -p "$mount" || refuse "cannot make the directory $mount"

# shellcheck disable=SC2086
mdadm --create "/dev/md/$name" $create --name="$name" --raid-devices="$wanted" $blank || failed "mdadm cannot make it of$blank"
settle
node=$(readlink -f "/dev/md/$name")
# shellcheck disable=SC2086
"mkfs.$filesystem" $mkfs "$node" </dev/null || failed "mkfs.$filesystem cannot make a file system on $node"
array=$(mdadm --detail --export "$node" | sed -n 's/^MD_UUID=//p')
uuid=$(blkid -p -o value -s UUID "$node")
[ -n "$array" ] && [ -n "$uuid" ] || failed "$node, or what is on it, has no uuid"
put "$conf" "ARRAY /dev/md/$name UUID=$array"
[ -z "$settings" ] || { mkdir -p "${rules%/*}" && echo "# ebb: $name (written by \`ebb user-data\`)" >"$rules"; } || failed "cannot write $rules"
for setting in $settings; do
    file=${setting%%=*} value=${setting#*=}
    case $file in
        array.*) tune "$node" "${file#*.}" "$value" "ENV{MD_UUID}==\"$array\"" ;;
        *) for link in $links; do tune "$(readlink -f "$link")" "${file#*.}" "$value" "SYMLINK==\"${link#/dev/}\""; done ;;
    esac
done
if have update-initramfs; then update-initramfs -u || say "update-initramfs fails: the array may get another name at boot"; fi
# Last: with this line the array is whole.
put /etc/fstab "UUID=$uuid $fstab"
[ ! -d /run/systemd/system ] || systemctl daemon-reload
# With nofail mount says nothing of a device that it does not find.
mount "$mount" && findmnt --mountpoint "$mount" >/dev/null && sync || failed "it is made of$blank, and cannot be mounted at $mount"
say "made of$blank, and mounted at $mount"
