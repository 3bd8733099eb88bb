#!/bin/sh
# check.sh STEP BUILD SOURCE CC CXX: installs the build into a private prefix, moves that prefix, and
# uses it as an outside project does. The steps after "tree" work on what "tree" made.
#   tree          cmake --install, the list of files, no path of the build in them, moved prefix
#   destdir       a staged installation writes below DESTDIR only
#   pkgconfig     C99 and C++11 programs through pkg-config, shared and static
#   package       the same through find_package(), and what it must refuse
#   subdirectory  the same through add_subdirectory(), as a Release build with -Werror
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

# run_both NAME PROGRAM: the program fires a job on single: and, at the same time, on sqlite:.
run_both()
{
    "$2" single: > "$work/said.single" 2>&1 &
    single=$!
    "$2" "sqlite:$work/$1.db" > "$work/said.sqlite" 2>&1 &
    sqlite=$!
    for run in "$single single" "$sqlite sqlite"; do
        kind=${run#* }
        wait "${run% *}" || {
            cat "$work/said.$kind"
            die "'$1' failed on '$kind:'"
        }
        echo "$1: $(cat "$work/said.$kind")"
    done
}

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
    pkg-config --exists --print-errors jobsched jobsched-sqlite
    version=$(sed -n 's/^#define JOBSCHED_VERSION  *"\(.*\)"$/\1/p' "$source/include/jobsched/base.h")
    [ "$(pkg-config --modversion jobsched)" = "$version" ] ||
        die "pkg-config says version '$(pkg-config --modversion jobsched)', the header '$version'"

    # Shared: -ljobsched is all there is to say, also for sqlite:.
    for language in c cpp; do
        # shellcheck disable=SC2046
        compile "shared_$language" "$language" $(pkg-config --cflags --libs jobsched) \
            "-Wl,-rpath,$(pkg-config --variable=libdir jobsched)"
        needs "$work/shared_$language" sqlite && die "the shared program needs sqlite"
        needs "$work/shared_$language" libjobsched || die "the shared program is not shared"
        run_both "shared_$language" "$work/shared_$language"
    done

    # Without the backend's library the error says which one to install.
    cp -R "$prefix" "$work/bare"
    rm -f "$(libdir_of "$work/bare")"/libjobsched-sqlite.so*
    if LD_LIBRARY_PATH=$(libdir_of "$work/bare") "$work/shared_c" "sqlite:$work/none.db" \
        > "$work/said" 2>&1; then
        # The program's own search path comes after LD_LIBRARY_PATH, so this is the bare one.
        die "sqlite: works without its library"
    fi
    grep -q 'libjobsched-sqlite' "$work/said" ||
        die "the error does not name the missing library: $(cat "$work/said")"

    # Static: a prefix without shared libraries of ours, so that the linker takes the archives.
    cp -R "$prefix" "$work/static"
    find "$work/static" -name 'libjobsched*.so*' -exec rm -f {} +
    PKG_CONFIG_PATH=$(dirname "$(find "$work/static" -name jobsched.pc)")
    for language in c cpp; do
        # shellcheck disable=SC2046
        compile "static_$language" "$language" -DWITH_SQLITE \
            $(pkg-config --static --cflags --libs jobsched-sqlite)
        needs "$work/static_$language" libjobsched && die "the static program is not static"
        run_both "static_$language" "$work/static_$language"
    done
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
        run_both "shared_$language" "$1/${language}_shared"
        run_both "static_$language" "$1/${language}_static"
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

step_package()
{
    build_consumer "$work/build" "-DCMAKE_PREFIX_PATH=$prefix"
    run_consumers "$work/build"
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

"step_$step"
