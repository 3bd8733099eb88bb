#!/bin/sh
# check.sh STEP BUILD SOURCE CC CXX: installs the build into a private prefix, moves that prefix, and
# uses it as an outside project does. The steps after "tree" work on what "tree" made.
#   tree          cmake --install, the list of files, no path of the build in them, moved prefix
#   destdir       a staged installation writes below DESTDIR only
#   pkgconfig     C99 and C++11 programs through pkg-config, shared and static
#   package       the same through find_package(), and what it must refuse
#   subdirectory  the same through add_subdirectory(), as a Release build with -Werror
#   configure     what cmake says where a client library is missing
# The servers' URLs come from JOBSCHED_TEST_POSTGRESQL and JOBSCHED_TEST_REDIS (tests/servers.cmake).
set -eu

step=$1
build=$2
source=$3
cc=$4
cxx=$5
area=$build/install-test
prefix=$area/moved
work=$area/$step
consumer=$source/tests/install/consumer

rm -rf "$work"
mkdir -p "$work"

die()
{
    echo "install: $*"
    exit 1
}

# file_list FOLDER: the files of an installation, without what differs between machines: the
# library folder's name, the version, and the build type in the name of CMake's target files.
file_list()
{
    (cd "$1" && find . ! -type d -print) |
        sed -E 's|^\./||; s|^lib/[a-z0-9_]+-linux-[a-z]+/|lib/|; s|^lib64/|lib/|
            s|\.so\.[0-9.]+$|.so.N|; s|-targets-[a-z]+\.cmake$|-targets-TYPE.cmake|' |
        LC_ALL=C sort
}

# url_of BACKEND NAME: a store that no other program uses at the same time; each step has a schema
# and a database of its own on the servers.
url_of()
{
    case $1 in
    single) echo single: ;;
    sqlite) echo "sqlite:$work/$2.db" ;;
    postgresql) echo "$JOBSCHED_TEST_POSTGRESQL&jobsched_schema=install_$step" ;;
    redis)
        case $step in
        pkgconfig) echo "$JOBSCHED_TEST_REDIS&db=1" ;;
        package) echo "$JOBSCHED_TEST_REDIS&db=2" ;;
        *) echo "$JOBSCHED_TEST_REDIS&db=3" ;;
        esac
        ;;
    esac
}

# run_on "BACKEND..." NAME PROGRAM: the program fires a job on each of them, at the same time.
run_on()
{
    runs=
    for backend in $1; do
        "$3" "$(url_of "$backend" "$2")" > "$work/said.$backend" 2>&1 &
        runs="$runs $!/$backend"
    done
    for run in $runs; do
        backend=${run#*/}
        wait "${run%/*}" || {
            cat "$work/said.$backend"
            die "'$2' failed on '$backend:'"
        }
        echo "$2: $(cat "$work/said.$backend")"
    done
}

# must_say TEXT PROGRAM URL: the program fails and prints just that line.
must_say()
{
    if "$2" "$3" > "$work/said" 2>&1; then
        die "'$3' works, though it must not"
    fi
    if [ "$(cat "$work/said")" != "$1" ]; then
        printf '%s\n' "wanted: $1" "found:  $(cat "$work/said")"
        die "the error of '$3' is another"
    fi
}

all="single sqlite postgresql redis"

# needs PROGRAM REGEX: whether the program needs such a shared library.
needs()
{
    readelf -dW "$1" | grep -qE "\(NEEDED\).*\[$2"
}

libdir_of()
{
    dirname "$(find "$1" -name libjobsched.so)"
}

step_tree()
{
    rm -rf "$area/prefix" "$prefix"
    cmake --install "$build" --prefix "$area/prefix" > "$work/log"
    file_list "$area/prefix" > "$work/files"
    if ! diff "$source/tests/install/files.txt" "$work/files"; then
        die "the installed files are not those in tests/install/files.txt"
    fi
    # An archive holds debug information, which names source files by right.
    if grep -rlF -e "$build" -e "$source" -e "$area" --exclude='*.a' --exclude='*.so*' \
        --exclude-dir=bin "$area/prefix"; then
        die "an installed file names a path of the build"
    fi
    for file in "$area/prefix"/bin/* "$(libdir_of "$area/prefix")"/*.so; do
        if readelf -dW "$file" | grep -E 'R(UN)?PATH' | grep -F -e "$build" -e "$area"; then
            die "'$file' searches libraries in a path of the build"
        fi
    done
    if [ -e "$area/prefix/include/jobsched/base" ]; then
        die "an internal header is installed"
    fi
    mv "$area/prefix" "$prefix"
}

step_destdir()
{
    DESTDIR=$work/stage cmake --install "$build" --prefix /opt/jobsched-nowhere > "$work/log"
    if [ -e /opt/jobsched-nowhere ]; then
        die "a staged installation wrote outside DESTDIR"
    fi
    file_list "$work/stage/opt/jobsched-nowhere" > "$work/files"
    diff "$source/tests/install/files.txt" "$work/files" ||
        die "a staged installation has other files"
}

# compile NAME LANGUAGE FLAG...: compiles the consumer in that language.
compile()
{
    name=$1
    language=$2
    shift 2
    case $language in
    c) set -- "$cc" -std=c99 "$consumer/consumer.c" "$@" ;;
    *) set -- "$cxx" -std=c++11 "$consumer/consumer.cpp" "$@" ;;
    esac
    "$@" -D_POSIX_C_SOURCE=200809L -pedantic-errors -Wall -Wextra -Werror -pthread -o "$work/$name" ||
        die "'$name' does not compile: $*"
}

step_pkgconfig()
{
    libdir=$(libdir_of "$prefix")
    PKG_CONFIG_PATH=$libdir/pkgconfig
    export PKG_CONFIG_PATH
    pkg-config --exists --print-errors jobsched jobsched-sqlite jobsched-postgresql \
        jobsched-postgres jobsched-redis
    version=$(sed -n 's/^#define JOBSCHED_VERSION  *"\(.*\)"$/\1/p' "$source/include/jobsched/base.h")
    [ "$(pkg-config --modversion jobsched)" = "$version" ] ||
        die "pkg-config says version '$(pkg-config --modversion jobsched)', the header '$version'"

    # Shared: -ljobsched is all there is to say, whatever the URL.
    for language in c cpp; do
        # shellcheck disable=SC2046 # flags are words
        compile "shared_$language" "$language" $(pkg-config --cflags --libs jobsched) \
            "-Wl,-rpath,$(pkg-config --variable=libdir jobsched)"
        needs "$work/shared_$language" "lib(sqlite|pq|hiredis)" &&
            die "the shared program needs a client library"
        needs "$work/shared_$language" libjobsched || die "the shared program is not shared"
        run_on "$all" "shared_$language" "$work/shared_$language"
    done
    # The other names of two schemes load the same libraries. hiredis 0.14 has no TLS, which its
    # backend says.
    "$work/shared_c" "postgres${JOBSCHED_TEST_POSTGRESQL#postgresql}&jobsched_schema=install_alias"
    if "$work/shared_c" rediss://localhost:1 > "$work/said" 2>&1 || ! grep -q TLS "$work/said"; then
        die "'rediss:' does not say that there is no TLS: $(cat "$work/said")"
    fi

    refusals
    static_programs
    outside_driver
}

# Without a backend's library the error says what to install; with a scheme that is none of ours, what
# such a library would be called.
refusals()
{
    cp -R "$prefix" "$work/bare"
    rm -f "$(libdir_of "$work/bare")"/libjobsched-*.so*
    # The program's own search path comes after LD_LIBRARY_PATH, so this is the bare one.
    LD_LIBRARY_PATH=$(libdir_of "$work/bare")
    export LD_LIBRARY_PATH
    for pair in sqlite/sqlite postgresql/postgresql postgres/postgresql redis/redis rediss/redis; do
        scheme=${pair#*/}
        file=libjobsched-$scheme.so
        must_say "consumer: open: no backend for scheme '$scheme': install $file beside \
libjobsched.so, or give its driver in options.backends ($file: cannot open shared object file: \
No such file or directory)" "$work/shared_c" "${pair%/*}://user:secret@host/x"
    done
    must_say "consumer: open: no backend for scheme 'my-own'; is the scheme missing in front of it? \
Expected for example 'single:', 'sqlite:/path/to/file.db', 'postgresql://user@host/database' or \
'redis://host'; one from outside would be libjobsched-my-own.so beside libjobsched.so, or in \
options.backends" "$work/shared_c" "my-own://user:secret@host/x"
    # A library that is there but lacks its client: the error names the client.
    echo "int nowhere(void); int nowhere(void) { return 0; }" > "$work/nowhere.c"
    "$cc" -shared -fPIC -o "$work/libnowhere.so" "$work/nowhere.c"
    "$cc" -shared -fPIC -Wl,--no-as-needed -o "$LD_LIBRARY_PATH/libjobsched-lame.so" \
        "$work/nowhere.c" "-L$work" -lnowhere
    rm "$work/libnowhere.so"
    must_say "consumer: open: backend 'libjobsched-lame.so' cannot be loaded; install what it needs: \
libnowhere.so: cannot open shared object file: No such file or directory" "$work/shared_c" "lame:"
    unset LD_LIBRARY_PATH
    must_say "consumer: open: lock URL has no scheme; expected for example 'single:', \
'sqlite:/path/to/file.db', 'postgresql://user@host/database' or 'redis://host'" "$work/shared_c" "/path/to/file.db"
    must_say "consumer: open: lock URL scheme has an upper-case letter at byte 0; write it in lower \
case: 'redis:'" "$work/shared_c" "Redis://host"
}

# A prefix without shared libraries of ours, so that the linker takes the archives.
static_programs()
{
    cp -R "$prefix" "$work/static"
    find "$work/static" -name 'libjobsched*.so*' -exec rm -f {} +
    PKG_CONFIG_PATH=$(dirname "$(find "$work/static" -name jobsched.pc)")
    for backend in sqlite postgresql redis; do
        client=$(case $backend in sqlite) echo sqlite ;; postgresql) echo pq ;; redis) echo hiredis ;; esac)
        for language in c cpp; do
            name=static_${backend}_$language
            # shellcheck disable=SC2046 # flags are words
            compile "$name" "$language" "-DWITH_$(echo "$backend" | tr '[:lower:]' '[:upper:]')" \
                $(pkg-config --static --cflags --libs "jobsched-$backend")
            needs "$work/$name" libjobsched && die "the static program is not static"
            needs "$work/$name" "lib$client" || die "'$name' does not need lib$client"
            run_on "single $backend" "$name" "$work/$name"
        done
    done
    must_say "consumer: open: no backend for scheme 'redis': install libjobsched-redis.so beside \
libjobsched.so, or give its driver in options.backends (libjobsched-redis.so: cannot open shared \
object file: No such file or directory)" "$work/static_sqlite_c" "redis://host"
}

# A driver of an outside author, in a folder of the loader's path and not beside libjobsched.so, is
# found by its scheme; a program with a jobsched of its own refuses it, as it would not see its errors.
outside_driver()
{
    mkdir "$work/outside"
    cat > "$work/outside.c" << 'END'
#include <jobsched/backend.h>
static jobsched_backend driver;
static int open_single(const jobsched_backend_config *config, void **out_backend)
{
    jobsched_backend_config single = *config;
    single.url = "single:";
    return jobsched_backend_single()->open(&single, out_backend);
}
JOBSCHED_API const jobsched_backend *jobsched_backend_out_side(void);
const jobsched_backend *jobsched_backend_out_side(void)
{
    driver = *jobsched_backend_single();
    driver.scheme = "out-side";
    driver.open = open_single;
    return &driver;
}
END
    PKG_CONFIG_PATH=$libdir/pkgconfig
    # shellcheck disable=SC2046 # flags are words
    "$cc" -std=c99 -shared -fPIC -o "$work/outside/libjobsched-out-side.so" "$work/outside.c" \
        $(pkg-config --cflags --libs jobsched) "-Wl,-rpath,$libdir"
    LD_LIBRARY_PATH=$work/outside
    export LD_LIBRARY_PATH
    "$work/shared_c" out-side: || die "a driver on the loader's path is not found"
    must_say "consumer: open: backend 'libjobsched-out-side.so' was found, but belongs to a shared \
libjobsched, and this program has its own; give its driver in options.backends" \
        "$work/static_sqlite_c" out-side:
    # What it lacks is named there, too.
    LD_LIBRARY_PATH=$work/bare2
    mkdir "$LD_LIBRARY_PATH"
    mv "$(libdir_of "$work/bare")/libjobsched-lame.so" "$LD_LIBRARY_PATH"
    must_say "consumer: open: backend 'libjobsched-lame.so' cannot be loaded; install what it needs: \
libnowhere.so: cannot open shared object file: No such file or directory" "$work/shared_c" "lame:"
    unset LD_LIBRARY_PATH
}

# build_consumer FOLDER ARGUMENT...: configures and builds the consumer project.
build_consumer()
{
    folder=$1
    shift
    if ! CC=$cc CXX=$cxx cmake -G Ninja -S "$consumer" -B "$folder" "$@" \
        > "$folder.log" 2>&1 || ! ninja -C "$folder" -j 2 >> "$folder.log" 2>&1; then
        cat "$folder.log"
        die "the consumer project does not build with: $*"
    fi
}

run_consumers()
{
    for language in c cpp; do
        run_on "$all" "shared_$language" "$1/${language}_shared"
        run_on "$all" "static_$language" "$1/${language}_static"
        needs "$1/${language}_static" libjobsched && die "the static program is not static"
    done
    return 0
}

# expect_refusal TEXT ARGUMENT...: find_package() fails and says TEXT.
expect_refusal()
{
    text=$1
    shift
    if CC=$cc CXX=$cxx cmake -G Ninja -S "$consumer" -B "$work/refused" \
        "-DCMAKE_PREFIX_PATH=$prefix" "$@" > "$work/said" 2>&1; then
        die "find_package() accepted: $*"
    fi
    grep -qF -e "$text" "$work/said" || {
        cat "$work/said"
        die "find_package() does not say '$text' of: $*"
    }
    rm -rf "$work/refused"
}

# expect_acceptance ARGUMENT...: find_package() finds it.
expect_acceptance()
{
    if ! CC=$cc CXX=$cxx cmake -G Ninja -S "$consumer" -B "$work/accepted" \
        "-DCMAKE_PREFIX_PATH=$prefix" "$@" > "$work/said" 2>&1; then
        cat "$work/said"
        die "find_package() refused: $*"
    fi
}

step_package()
{
    build_consumer "$work/build" "-DCMAKE_PREFIX_PATH=$prefix"
    run_consumers "$work/build"
    # The short name, as in the URL.
    expect_acceptance "-DWANTED_COMPONENTS=sqlite;postgres;redis"
    expect_refusal "component 'telepathy' is not installed" -DWANTED_COMPONENTS=telepathy
    expect_refusal "version: 0.1.0" -DWANTED_VERSION=0.2
    expect_refusal "version: 0.1.0" -DWANTED_VERSION=1.0
}

step_subdirectory()
{
    build_consumer "$work/build" "-DJOBSCHED_SOURCE=$source" -DCMAKE_BUILD_TYPE=Release \
        -DJOBSCHED_WERROR=ON
    run_consumers "$work/build"
}

# must_not_configure SCHEME NEEDS PACKAGE OPTION: alone and without its library, that backend cannot be
# configured, and the error says how to go on.
must_not_configure()
{
    if CC=$cc PKG_CONFIG_LIBDIR=$work/nothing cmake -G Ninja -S "$source" -B "$work/$1" \
        -DJOBSCHED_BUILD_TESTS=OFF -DJOBSCHED_BUILD_EXAMPLES=OFF -DJOBSCHED_BUILD_CTL=OFF \
        -DJOBSCHED_BUILD_SQLITE=OFF -DJOBSCHED_BUILD_POSTGRES=OFF -DJOBSCHED_BUILD_REDIS=OFF \
        "-D$4=ON" > "$work/said" 2>&1; then
        die "cmake does not miss what '$1:' needs"
    fi
    # CMake breaks lines where it likes.
    tr -s ' \n' '  ' < "$work/said" > "$work/line"
    grep -qF "the $1: backend needs $2 or later, which pkg-config does not find: install $3 (what \
Debian calls it), or configure with -D$4=OFF" "$work/line" || {
        cat "$work/said"
        die "the error does not say how to go on without '$3'"
    }
}

step_configure()
{
    must_not_configure sqlite "sqlite3 3.31" libsqlite3-dev JOBSCHED_BUILD_SQLITE
    must_not_configure postgresql "libpq 12" libpq-dev JOBSCHED_BUILD_POSTGRES
    must_not_configure redis "hiredis 0.14" libhiredis-dev JOBSCHED_BUILD_REDIS
}

"step_$step"
