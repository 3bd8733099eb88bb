#!/bin/sh
# fire.sh BENCH_FIRE JOBS PROCESSES [WORKERS [LEAD_MS]]: bench_fire on a fresh sqlite: store.
set -eu

program=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
"$program" "sqlite:$work/jobs.db" "$@"
