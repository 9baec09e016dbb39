#!/bin/bash
# build.sh DIRECTORY: a root file system for the guest, and Debian's User-Mode Linux kernel with its modules.
# Then: run.sh DIRECTORY LOSS_PERCENT MESSAGES SECONDS_MAX
set -eu
unset CDPATH
here=$(dirname "$(readlink -f "$0")")
repository=$(readlink -f "$here/../..")
mkdir -p "$1/root"
directory=$(readlink -f "$1")
root=$directory/root
for tool in busybox dash ip tc gcc cargo; do
    command -v $tool >/dev/null || { echo "install $tool first (Debian: busybox-static iproute2 gcc libc6-dev)" >&2; exit 1; }
done
mkdir -p "$root"/{bin,sbin,dev,proc,sys,run,tmp,lib/modules}

cp "$(command -v busybox)" "$root/bin/busybox"
for applet in mount mkdir cat echo sed sleep uname poweroff modprobe tee timeout; do ln -sf busybox "$root/bin/$applet"; done
# A shell that is not busybox's, which has an `ip` of its own.
for program in ip tc dash; do
    cp "$(command -v $program)" "$root/bin/"
    ldd "$(command -v $program)" | grep -o '/lib[^ ]*' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
done
ln -sf dash "$root/bin/sh"
# The kernel calls it for the modules that SCTP needs.
ln -sf ../bin/busybox "$root/sbin/modprobe"

gcc -std=gnu11 -Wall -Wextra -O2 -static -pthread -o "$root/bin/echo-peer" "$here/echo.c"
gcc -std=gnu11 -Wall -Wextra -O2 -static -o "$root/bin/tunnel" "$here/tunnel.c"
gcc -std=gnu11 -Wall -Wextra -O2 -static -pthread -o "$root/bin/failover-peer" "$repository/interop/failover/peer.c"
target=x86_64-unknown-linux-gnu
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$directory/target}
(cd "$repository" && RUSTFLAGS="-C target-feature=+crt-static" cargo build --release -p festina --example policies --example failover --target $target)
cp "$CARGO_TARGET_DIR/$target/release/examples/"{policies,failover} "$root/bin/"

cp "$here"/{guest,failover}.sh "$root/"
cat > "$root/init" <<'INIT'
#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null; mount -t tmpfs run /run
mkdir -p /run/netns; ip link set lo up
for module in sctp veth tun sch_netem; do modprobe $module 2>/dev/null; done
script=$(sed -n 's/.*\bscript=\([^ ]*\).*/\1/p' /proc/cmdline)
sh "/${script:-guest}.sh" 2>&1
poweroff -f
INIT
chmod +x "$root/init"

if [ ! -x "$directory/linux" ]; then
    (cd "$directory" && apt-get download user-mode-linux && dpkg-deb -x user-mode-linux_*.deb package)
    cp "$directory/package/usr/bin/linux.uml" "$directory/linux"
    cp -r "$directory"/package/usr/lib/uml/modules/. "$root/lib/modules/"
fi
