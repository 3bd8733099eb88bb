# shellcheck shell=sh
# help and version.
jobschedctl help
jobschedctl --help
jobschedctl help next
jobschedctl lint --help
jobschedctl version
jobschedctl --version
