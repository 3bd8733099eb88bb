#!/bin/sh
# run.sh: installs what the build and the tests need, builds with -Werror, runs the tests through
# ctest and ends with its summary. Needs no network when everything is installed already. The
# PostgreSQL and Redis servers of the tests are private ones, in folders in /tmp, without ports; no
# service of the machine is started or used.
#
#   sh tests/run.sh [--quick] [--label REGEX] [--compiler gcc|clang] [--sanitize LIST]
#                   [--except REGEX] [--build-dir FOLDER] [--launcher COMMAND] [--jobs N]
#                   [--coverage] [--build-only]
#
#   --quick       leaves out the tests labelled "slow"
#   --label       runs only the tests that have a label matching REGEX (labels are the folders
#                 in tests/, and "slow")
#   --except      leaves out the tests whose name matches REGEX
#   --sanitize    builds with sanitizers, for example address,undefined or thread; the checks of
#                 what is shipped are not part of such a build
#   --coverage    counts what runs, for tests/tools/coverage.sh; as with sanitizers the checks of what
#                 is shipped are not part of such a build. gcc only
#   --launcher    runs each test program under a command, for example 'valgrind;--quiet'
#   --build-dir   where to build; build-test in the checkout unless given
#   --build-only  builds and runs nothing
#   --jobs        how many compilers run at the same time, and tests that compute; of those that mostly
#                 wait up to three times as many. As many as there are processors unless given
#
# Every test that is selected must run: one that is skipped or cannot be started is a failure.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-test
compiler=gcc
sanitize=
label=
except=
launcher=
quick=
build_only=
coverage=OFF
jobs=$(nproc)

usage()
{
    sed -n '2,/^set/ { s/^# \{0,1\}//p; }' "$0"
}

need_value()
{
    if [ "$2" -lt 2 ]; then
        echo "run.sh: '$1' needs a value" >&2
        exit 2
    fi
}

while [ $# -gt 0 ]; do
    case $1 in
    --build-dir | --compiler | --sanitize | --label | --except | --launcher | --jobs) need_value "$1" $# ;;
    esac
    case $1 in
    --build-dir) build=$2; shift ;;
    --compiler) compiler=$2; shift ;;
    --sanitize) sanitize=$2; shift ;;
    --label) label=$2; shift ;;
    --except) except=$2; shift ;;
    --launcher) launcher=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    --quick) quick=1 ;;
    --build-only) build_only=1 ;;
    --coverage) coverage=ON ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run.sh: unknown option '$1' (see --help)" >&2; exit 2 ;;
    esac
    shift
done
case $compiler in
gcc*) cxx=g++${compiler#gcc} ;;
clang*) cxx=clang++${compiler#clang} ;;
*) echo "run.sh: compiler '$compiler' is neither gcc nor clang" >&2; exit 2 ;;
esac
case $build in
/*) ;;
*) build=$PWD/$build ;;
esac

# ThreadSanitizer of this age cannot place its shadow where the kernel randomises with more bits.
bits=$(cat /proc/sys/vm/mmap_rnd_bits 2> /dev/null || echo 28)
case $sanitize in
*thread*)
    if [ -z "$launcher" ] && [ "$bits" -gt 28 ]; then
        launcher="setarch;$(uname -m);-R"
    fi
    ;;
esac

# ---- what is needed ----

packages=
want_command()
{
    if ! command -v "$1" > /dev/null 2>&1; then
        packages="$packages $2"
    fi
}
want_module()
{
    if ! pkg-config --exists "$1" 2> /dev/null; then
        packages="$packages $2"
    fi
}
want()
{
    packages=
    want_command "$compiler" "$compiler"
    case $compiler in
    gcc*) want_command "$cxx" "$cxx" ;;
    clang*) want_command "$cxx" "$compiler" ;;
    esac
    if [ ! -e /usr/include/stdio.h ]; then
        packages="$packages libc6-dev"
    fi
    # Without it the tests of time zones would have nothing to compare with.
    if [ ! -e /usr/share/zoneinfo/Europe/Berlin ]; then
        packages="$packages tzdata"
    fi
    want_command cmake cmake
    want_command ninja ninja-build
    want_command pkg-config pkg-config
    want_command readelf binutils
    want_module cmocka libcmocka-dev
    want_module sqlite3 libsqlite3-dev
    want_module libpq libpq-dev
    want_module hiredis libhiredis-dev
    want_module jansson libjansson-dev
    want_module smartcols libsmartcols-dev
    # Debian keeps the server's programs outside the path.
    if ! ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1; then
        packages="$packages postgresql"
    fi
    want_command redis-server redis-server
    want_command redis-cli redis-tools
    want_command pgbouncer pgbouncer
    want_command openssl openssl
    want_command setpriv util-linux
    if [ "$coverage" = ON ]; then
        want_command gcovr gcovr
    fi
    case $launcher$sanitize in
    '') want_command spin spin ;; # the models are checked once
    valgrind*) want_command valgrind valgrind ;;
    esac
    # Debian keeps clang's sanitizers in a package of their own.
    case $compiler:$sanitize in
    clang*:?*)
        if ! ls "$("$compiler" -print-resource-dir 2> /dev/null)"/lib/linux/libclang_rt.asan* \
            > /dev/null 2>&1; then
            version=${compiler#clang}
            packages="$packages libclang-rt$version-dev"
        fi
        ;;
    esac
}

as_root()
{
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo > /dev/null 2>&1; then
        sudo "$@"
    else
        echo "run.sh: not root and no sudo: install these packages yourself:$packages" >&2
        return 1
    fi
}

# The packages of servers would start them, on their usual ports; and PostgreSQL's would make a
# cluster. Debian's own switch, unless somebody has set it already, turned back afterwards.
switch=/usr/sbin/policy-rc.d
switched=
services_off()
{
    if [ ! -e "$switch" ]; then
        switched=1
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$switch" > /dev/null
        as_root chmod 0755 "$switch"
    fi
}
services_on()
{
    if [ -n "$switched" ]; then
        as_root rm -f "$switch"
        switched=
    fi
}

# Whatever happens, no server is left behind.
# shellcheck disable=SC2317 # called by trap
clean()
{
    result=$?
    trap - EXIT
    trap '' INT TERM HUP
    services_on
    if [ -f "$build/servers.txt" ]; then
        while read -r script folder; do
            if [ -d "$folder" ]; then
                sh "$script" remove "$folder" || true
            fi
        done < "$build/servers.txt"
    fi
    exit "$result"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

want
if [ -n "$packages" ]; then
    if ! command -v apt-get > /dev/null 2>&1; then
        echo "run.sh: no apt-get here; what Debian calls these is missing:$packages" >&2
        exit 1
    fi
    echo "installing:$packages"
    services_off
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q < /dev/null > /dev/null
    # Package names hold no blanks.
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
        $packages < /dev/null > /dev/null
    services_on
    want
    if [ -n "$packages" ]; then
        echo "run.sh: still missing after the installation:$packages" >&2
        exit 1
    fi
fi

# ---- build ----

mkdir -p "$build"
log=$build/build.log

fail_with_log()
{
    cat "$log"
    echo "run.sh: $1 failed (log: $log)" >&2
    exit 1
}

# Set anew each time, so that a folder can be used with other options. Another compiler needs
# another folder, or CMake would keep the first.
if [ -f "$build/CMakeCache.txt" ] &&
    ! grep -q "^CMAKE_C_COMPILER:.*/$compiler\$" "$build/CMakeCache.txt"; then
    rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
fi
echo "building with $compiler${sanitize:+ and -fsanitize=$sanitize} in $build"
CC=$compiler CXX=$cxx cmake -G Ninja -S "$root" -B "$build" \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DJOBSCHED_WERROR=ON -DJOBSCHED_ASSERTIONS=ON \
    -DJOBSCHED_BUILD_SQLITE=ON -DJOBSCHED_BUILD_POSTGRES=ON -DJOBSCHED_BUILD_REDIS=ON \
    -DJOBSCHED_BUILD_TESTS=ON -DJOBSCHED_BUILD_EXAMPLES=ON \
    -DJOBSCHED_BUILD_CTL=ON \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "-DJOBSCHED_SANITIZE=$sanitize" \
    "-DJOBSCHED_COVERAGE=$coverage" \
    "-DJOBSCHED_TEST_LAUNCHER=$launcher" \
    > "$log" 2>&1 < /dev/null || fail_with_log "cmake"
ninja -C "$build" -j "$jobs" >> "$log" 2>&1 < /dev/null || fail_with_log "the build"

if [ -n "$build_only" ]; then
    echo "built"
    exit 0
fi

# ---- run ----

if [ "$coverage" = ON ]; then
    find "$build" -name '*.gcda' -delete # what earlier runs have counted
    # Processes that may not write say so in a file, and not amid what tests read.
    GCOV_ERROR_FILE=$build/gcov-errors
    export GCOV_ERROR_FILE
fi

# A test takes three places unless it mostly waits (tests/CMakeLists.txt).
set -- --no-tests=error --output-on-failure --no-label-summary -j $((jobs * 3))
if [ -n "$label" ]; then
    set -- "$@" -L "$label"
fi
if [ -n "$except" ]; then
    set -- "$@" -E "$except"
fi
if [ -n "$quick" ]; then
    set -- "$@" -LE '^slow$'
fi
cd "$build"
# The hint files of single: would stay in /tmp for ever, one for each namespace.
XDG_RUNTIME_DIR=$build/runtime
export XDG_RUNTIME_DIR
rm -rf "$XDG_RUNTIME_DIR"
mkdir -m 0700 "$XDG_RUNTIME_DIR"
# The output is kept beside the terminal's, without a pipe that would hide ctest's exit status.
status=0
{
    ctest "$@" < /dev/null || echo "$?" > "$build/status"
} 2>&1 | tee "$build/test.log"
if [ -f "$build/status" ]; then
    status=$(cat "$build/status")
    rm -f "$build/status"
fi
if grep -qE '\*\*\*(Skipped|Not Run)|^The following tests did not run' "$build/test.log"; then
    echo "run.sh: a test did not run" >&2
    status=1
fi
exit "$status"
