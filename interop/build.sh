#!/bin/sh
# Builds the out-of-process peers into a directory: all of them, or one part (usrsctp, pion).
# usrsctp needs a C compiler and libusrsctp-dev, pion Go 1.25. A part whose tools are missing makes it fail: a test that skips proves nothing.
set -eu
unset CDPATH
[ $# -eq 1 ] || [ $# -eq 2 ] || { echo "usage: $0 DIRECTORY [usrsctp|pion]" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
part=${2:-all}
# Programs are renamed into place, since another test may be running the old ones.
new=$(mktemp -d "$out/new.XXXXXX")
trap 'rm -rf "$new"' EXIT

if [ "$part" != pion ]; then
    for program in peer bench; do
        cc -std=c11 -O2 -Wall -Wextra -Werror -o "$new/usrsctp-$program" "$here/usrsctp/$program.c" -lusrsctp -lpthread
    done
    cc -std=c11 -O2 -Wall -Wextra -Werror -DUSRSCTP -o "$new/usrsctp-failover" "$here/failover/peer.c" -lusrsctp -lpthread
fi
if [ "$part" != usrsctp ]; then
    cd "$here/pion"
    CGO_ENABLED=0 go build -o "$new/pion-peer" .
    CGO_ENABLED=0 go build -o "$new/pion-thin" ./thin
fi
mv "$new"/* "$out"
