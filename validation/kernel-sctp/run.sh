#!/bin/bash
# run.sh DIRECTORY LOSS_PERCENT MESSAGES SECONDS_MAX [KERNEL_ARGUMENT...]: all cases at once in one guest; DIRECTORY is what build.sh made.
set -eu
directory=$(readlink -f "$1"); loss=$2; messages=$3; seconds=$4; shift 4
exec "$directory/linux" mem=768M rootfstype=hostfs rootflags="$directory/root" rw init=/init quiet con=null con0=fd:0,fd:1 console=tty0 \
    "loss=$loss" "messages=$messages" "seconds=$seconds" "$@" </dev/null
