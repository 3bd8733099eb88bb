#!/bin/sh
# Makes the zone files that the tests carry, so that no update of the system's tzdata can break them:
#   sh tests/data/make-zoneinfo.sh [SOURCE]
# SOURCE is tzdata in text form; the installed /usr/share/zoneinfo/tzdata.zi (Debian package tzdata) by default.
# Two forms of the same data, by zic: fat lists each transition up to 2037, slim leaves the regular ones to the
# footer. Only the zones that the tests name are kept. The first line of each tzdata.zi tells the version.
set -eu
cd "$(dirname "$0")"
source=${1:-/usr/share/zoneinfo/tzdata.zi}
version=$(sed -n '1s/^# version //p' "$source")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
zones="Africa/Cairo Africa/Casablanca Africa/Monrovia America/Asuncion America/Caracas America/Havana
America/Los_Angeles America/New_York America/Nuuk America/Santiago America/Sao_Paulo America/Scoresbysund
Antarctica/Troll Asia/Amman Asia/Beirut Asia/Dhaka Asia/Gaza Asia/Kolkata Asia/Pyongyang Asia/Tehran
Australia/Adelaide Australia/Lord_Howe Etc/GMT+12 Europe/Amsterdam Europe/Belgrade Europe/Berlin Europe/Dublin
Europe/Istanbul Europe/Lisbon Europe/London Europe/Moscow Europe/Prague Europe/Tallinn Pacific/Apia
Pacific/Chatham Pacific/Kiritimati Pacific/Kwajalein"
for form in fat slim; do
    zic -b "$form" -d "$work/$form" "$source"
    rm -rf "zoneinfo-$form"
    for zone in $zones; do
        mkdir -p "zoneinfo-$form/$(dirname "$zone")"
        cp -L "$work/$form/$zone" "zoneinfo-$form/$zone"
        chmod 644 "zoneinfo-$form/$zone"
    done
    echo "# version $version-$form" >"zoneinfo-$form/tzdata.zi"
done
