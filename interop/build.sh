#!/bin/sh
# Builds the out-of-process peers into the directory given as the only argument.
# Needs a C compiler, libusrsctp-dev and Go. Parts whose tools are missing make it fail: a test that skips proves nothing.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
for program in peer bench; do
    cc -std=c11 -O2 -Wall -Wextra -Werror -o "$out/usrsctp-$program" "$here/usrsctp/$program.c" -lusrsctp -lpthread
done
cd "$here/pion"
CGO_ENABLED=0 go build -o "$out/pion-peer" .
