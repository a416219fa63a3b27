# Makes this mount namespace one of a host on which the kernel's rbd has mapped rbd:rbd/vol1: what the kernel would say of it in /sys,
# and /dev/rbd0, which is the loop device $1. Then runs each line of standard input, `NAME ebb's arguments`.
set -eu
loop=$1
made=$(mktemp -d)
mount -t tmpfs -o mode=755 made "$made"
mkdir "$made/block" "$made/numbers" "$made/dev" "$made/bus"
for there in /sys/block/*; do ln -s "$(readlink -f "$there")" "$made/block/"; done
for there in /sys/dev/block/*; do ln -s "$(readlink -f "$there")" "$made/numbers/${there##*/}"; done
number=$(cat "/sys/block/${loop#/dev/}/dev")
# That of a second mapping.
other=${number%:*}:255
image() {
    mkdir -p "$made/bus/rbd/devices/$1" "$made/block/rbd$1"
    echo rbd >"$made/bus/rbd/devices/$1/pool"
    echo >"$made/bus/rbd/devices/$1/pool_ns"
    echo "$2" >"$made/bus/rbd/devices/$1/name"
    echo - >"$made/bus/rbd/devices/$1/current_snap"
    cp -r "/proc/self/fd/9/queue" "$made/block/rbd$1/" 2>/dev/null || true
    for file in size ro removable; do cat "/proc/self/fd/9/$file" >"$made/block/rbd$1/$file"; done
    echo "$3" >"$made/block/rbd$1/dev"
}
exec 9<"/sys/block/${loop#/dev/}"
image 0 vol1 "$number"
rm "$made/block/${loop#/dev/}" "$made/numbers/$number"
ln -s /sys/block/rbd0 "$made/numbers/$number"
for name in null zero full urandom tty; do cp -a "/dev/$name" "$made/dev/"; done
ln -s /proc/self/fd "$made/dev/fd"
mkdir "$made/dev/shm"
mknod "$made/dev/rbd0" b "${number%:*}" "${number#*:}"
mount --bind "$made/block" /sys/block
mount --bind "$made/numbers" /sys/dev/block
mount --bind "$made/bus" /sys/bus
mount --bind "$made/dev" /dev
while read -r name line; do
    echo "== $name"
    case $line in
    map*)
        image ${line#map } "$other"
        ln -s /sys/block/rbd1 "$made/numbers/$other"
        ;;
    unmap*) rm -r "$made/numbers/$other" "$made/bus/rbd/devices/${line#unmap }" "$made/block/rbd${line#unmap }" ;;
    # While it is stopped between finding the device and opening it, somebody else's image gets its place.
    race*)
        EBB_TEST_PAUSE=volume.pinned $EBB ${line#race } 2>&1 &
        for _ in $(seq 200); do
            [ "$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$!/status" 2>/dev/null)" = T ] && break
            sleep 0.05
        done
        echo other >/sys/bus/rbd/devices/0/name
        kill -CONT $!
        wait $! && status=0 || status=$?
        echo vol1 >/sys/bus/rbd/devices/0/name
        echo "status $status"
        ;;
    *)
        $EBB $line 2>&1 && status=0 || status=$?
        echo "status $status"
        ;;
    esac
done
