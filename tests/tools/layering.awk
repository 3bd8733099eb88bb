# layering.awk: the rules on what a source line may say, over the output of strip.awk, which is
# read twice.
# Prints "file:line: what is wrong" and leaves the count of such lines to its caller.

function bad(message)
{
    printf "%s:%d: %s\n", file, line, message
}

# Whether the code calls, or takes the address of, a function of that name; not a member of it.
function calls(code, name)
{
    return (" " code) ~ ("[^A-Za-z0-9_.>]" name " *\\(")
}

function calls_member(code, names)
{
    return code ~ ("(->|\\.)(" names ")\\)? *\\(")
}

function room_of(path, parts, count)
{
    count = split(path, parts, "/")
    if (parts[1] == "src" && parts[2] == "backends") {
        return count > 3 ? "backends/" parts[3] : "backends"
    }
    if (parts[1] == "src") {
        return parts[2]
    }
    return parts[1]
}

function folder_of(path)
{
    sub(/\/[^\/]*$/, "", path)
    return path
}

function exists(path, ignored, found)
{
    found = (getline ignored < path) >= 0
    close(path)
    return found
}

function check_quoted(name)
{
    if (name ~ /\.\./) {
        bad("include '" name "' climbs out of its room")
        return
    }
    if (name !~ /\//) {
        if (!exists(folder_of(file) "/" name)) {
            bad("include '" name "' is not beside this file")
        }
        return
    }
    if (room == "base" && name ~ /^base\//) {
        return
    }
    if (room == "schedule" && name ~ /^(base|schedule)\//) {
        return
    }
    if (room == "engine" && name ~ /^(base|schedule|engine)\//) {
        return
    }
    if (room ~ /^(backends\/|ctl$)/ && index(name, room "/") == 1) {
        return
    }
    if (room == "examples" && exists("examples/" name)) {
        return
    }
    # lint reads a crontab as elected-crond does, and passwords are refused alike; src/ctl links
    # the same sources.
    if (room == "ctl" && (name == "elected_crond/crontab.h" || name == "elected_crond/lock_url.h")) {
        return
    }
    if (room == "tests" && name !~ /^(base|schedule|engine|backends|ctl)\//) {
        return
    }
    bad("include '" name "' points upward or into another room (room '" room "')")
}

function check_angled(name)
{
    if (name == "jobsched.h" || (name ~ /^jobsched\/[a-z]+\.h$/ && exists("include/" name))) {
        return
    }
    if (room == "include") {
        if (name !~ /^(stddef|stdint|string)\.h$/) {
            bad("public header includes '" name "'")
        }
        return
    }
    if (room == "tests" || name ~ libc_headers || (room in client_headers && name ~ client_headers[room])) {
        return
    }
    bad("include '" name "' is neither libc, public, nor the client library of room '" room "'")
}

function check_include(code, name)
{
    name = code
    if (code ~ /include *"/) {
        sub(/^[^"]*"/, "", name)
        sub(/".*$/, "", name)
        check_quoted(name)
    } else {
        sub(/^[^<]*</, "", name)
        sub(/>.*$/, "", name)
        check_angled(name)
    }
}

function check_words(code, i)
{
    for (i in forbidden) {
        if (calls(code, forbidden[i])) {
            bad("'" forbidden[i] "' is not used in src/")
        }
    }
    if (calls(code, "(secure_)?getenv") && file !~ getenv_files) {
        bad("the environment is read outside settings and zone lookup")
    }
    # A program has no scheduler to ask for the time.
    if (file != "src/base/clock.c" && file != "src/ctl/now.c") {
        for (i in clocks) {
            if (calls(code, clocks[i])) {
                bad("'" clocks[i] "' reads OS time outside src/base/clock.c")
            }
        }
    }
    if (room == "ctl") {
        return
    }
    for (i in talking) {
        if (calls(code, talking[i])) {
            bad("'" talking[i] "' makes the library talk to the terminal or the log")
        }
    }
    if ((" " code " ") ~ /[^A-Za-z0-9_](stderr|stdout)[^A-Za-z0-9_]/) {
        bad("'stderr' or 'stdout' in the library")
    }
    for (i in process_wide) {
        if (calls(code, process_wide[i])) {
            bad("'" process_wide[i] "' acts on the whole process")
        }
    }
    # What connect.c makes may outlive the handle, and with it the allocator.
    if (file != "src/base/alloc.c" && file != "src/backends/postgres/connect.c") {
        for (i in plain_memory) {
            if (calls(code, plain_memory[i])) {
                bad("'" plain_memory[i] "' bypasses the injected allocator")
            }
        }
    }
}

function check_doors(code)
{
    if (calls_member(code, operations) && file != "src/engine/backend_call.c") {
        bad("a backend operation is called outside src/engine/backend_call.c")
    }
    if (calls_member(code, "run|on_stop|user_data_free") && file != "src/engine/call_job.c") {
        bad("a job is called outside src/engine/call_job.c")
    }
    if (calls_member(code, "observer") && file != "src/engine/observer.c") {
        bad("an observer is called outside src/engine/observer.c")
    }
}

# Descriptors must not leak into children of the host, so whole statements that make one are read.
function check_descriptors(i)
{
    for (i in needs_cloexec) {
        if (calls(statement, needs_cloexec[i]) && statement !~ /CLOEXEC/) {
            bad("'" needs_cloexec[i] "' without a close-on-exec flag")
        }
    }
    if (calls(statement, "fopen") && statement !~ /"[a-z+]*e[a-z+]*"/) {
        bad("'fopen' without the close-on-exec mode 'e'")
    }
}

# The first pass notes which room's headers name an internal symbol. An outsider may use those of
# its own room; a name that two rooms have would also clash when both are linked statically.
function note_names(code, name)
{
    while (match(code, /(^|[^A-Za-z0-9_])jsi_[a-z0-9_]+/)) {
        name = substr(code, RSTART, RLENGTH)
        sub(/^[^j]/, "", name)
        if (index(owners[name], " " room " ") == 0) {
            owners[name] = owners[name] " " room " "
        }
        code = substr(code, RSTART + RLENGTH)
    }
}

function check_names(code, name, others)
{
    while (match(code, /(^|[^A-Za-z0-9_])jsi_[a-z0-9_]+/)) {
        name = substr(code, RSTART, RLENGTH)
        sub(/^[^j]/, "", name)
        others = owners[name]
        sub(" " room " ", "", others)
        if (others ~ /[^ ]/) {
            bad("'" name "' is an internal symbol of another room")
        }
        code = substr(code, RSTART + RLENGTH)
    }
}

BEGIN {
    FS = "\t"
    libc_headers = "^(assert|ctype|dirent|dlfcn|endian|errno|fcntl|float|getopt|grp|inttypes|" \
        "langinfo|limits|link|locale|math|netdb|poll|pthread|pwd|sched|semaphore|signal|spawn|stdalign|" \
        "stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|strings|termios|" \
        "time|unistd|wchar|wctype|arpa/.*|net/.*|netinet/.*|sys/.*|linux/.*)(\\.h)?$"
    client_headers["backends/sqlite"] = "^sqlite3\\.h$"
    client_headers["backends/postgres"] = "^libpq-fe\\.h$"
    client_headers["backends/redis"] = "^hiredis/hiredis(_ssl)?\\.h$"
    client_headers["ctl"] = "^(libsmartcols/libsmartcols|jansson)\\.h$"
    client_headers["examples"] = "^(uv|event2/[a-z]+|microhttpd|ini)\\.h$"
    operations = "open|close|announce|claim|finish|renew|reap|control|runs"
    getenv_files = "^src/(engine/settings|schedule/zone[a-z_]*|backends/single/[a-z_]+|ctl/(cluster|output))\\.c$"
    split("strcpy strcat strncat sprintf vsprintf atoi atol atoll atof gets localtime " \
        "localtime_r gmtime mktime timegm ctime asctime setenv unsetenv putenv clearenv tzset " \
        "rand srand random srandom drand48 strtok alloca system popen tmpnam mktemp " \
        "pipe dup dup2 epoll_create creat sleep usleep", forbidden, " ")
    split("clock_gettime gettimeofday time clock times ftime timespec_get", clocks, " ")
    split("printf fprintf vprintf vfprintf dprintf vdprintf puts fputs putchar putc perror psignal " \
        "syslog vsyslog openlog", talking, " ")
    split("signal sigaction sigprocmask exit quick_exit atexit setlocale chdir umask fork vfork " \
        "setrlimit pthread_atfork", process_wide, " ")
    split("malloc calloc realloc reallocarray free strdup strndup asprintf vasprintf getline " \
        "posix_memalign aligned_alloc open_memstream", plain_memory, " ")
    split("open openat socket accept4 eventfd timerfd_create signalfd epoll_create1 pipe2 dup3 " \
        "memfd_create inotify_init1 socketpair", needs_cloexec, " ")
}

NR == FNR {
    if ($1 ~ /^src\/.*\.h$/) {
        room = room_of($1)
        note_names($3)
    }
    next
}

{
    if ($1 != file) {
        statement = ""
    }
    file = $1
    line = $2
    room = room_of(file)
    code = $3
    if (code ~ /\/\//) {
        bad("a // comment (they are for temporary lines only)")
    }
    if (code ~ /^ *# *include/) {
        if (file !~ /^tests\// || file ~ /^tests\/backend\/(conformance|cf_)/) {
            check_include(code)
        }
        next
    }
    if (file ~ /^src\//) {
        check_words(code)
        check_doors(code)
        statement = statement " " $4
        if ($4 ~ /[;{}] *$/) {
            check_descriptors()
            statement = ""
        }
    }
    if (room == "include" && code ~ /sqlite3_|PGconn|PGresult|redisContext|redisReply/) {
        bad("public header names a type of a client library")
    }
    if (file ~ /^(examples\/|src\/backends\/|src\/ctl\/|tests\/backend\/(conformance|cf_))/) {
        check_names(code)
    }
}
