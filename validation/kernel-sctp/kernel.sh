#!/bin/bash
# kernel.sh DIRECTORY: DIRECTORY/linux becomes a User-Mode Linux 6.1 kernel with virtual time ("time travel"), SCTP and netem built in, from
# Debian's linux-source-6.1 (140 MB; 5 to 10 minutes on two cores). Then build.sh takes it, and run.sh wants `time-travel=inf-cpu` behind its
# other arguments.
set -eu
unset CDPATH
here=$(dirname "$(readlink -f "$0")")
for tool in flex bison bc make gcc xz; do
    command -v $tool >/dev/null || { echo "install $tool first (Debian: flex bison bc make gcc libelf-dev xz-utils)" >&2; exit 1; }
done
mkdir -p "$1"
cd "$1"
apt-get download linux-source-6.1
dpkg-deb -x linux-source-6.1_*.deb package
tar xf package/usr/src/linux-source-6.1.tar.xz
cd linux-source-6.1
sed -i '/^config HZ/,/default/ s/default 100/default 250/' arch/um/Kconfig
KCONFIG_ALLCONFIG="$here/kernel.config" make ARCH=um allnoconfig >/dev/null
make ARCH=um -j"$(nproc)" linux >/dev/null
strip -o ../linux linux
