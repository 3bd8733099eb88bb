# shellcheck shell=sh
# What is refused, and how: carets, statuses, nothing acted on.
jobschedctl next '60 * * * *'
jobschedctl next '*/90 * * * *'
jobschedctl prev '* * * *'
jobschedctl explain '* * * * * * * *'
jobschedctl next ''
jobschedctl next '   '
jobschedctl next '@reboot'
jobschedctl next 'H * * * *'
jobschedctl next "$(printf '0\t0 * * BAD')"
jobschedctl next "$(printf '0 0 * * \033]0;x\007*')"
jobschedctl next "$(printf '0 0 * * \303\274')"
jobschedctl next --zone Europe/Nowhere '* * * * *'
jobschedctl next --zone ../../etc/passwd '* * * * *'
jobschedctl next --zone UTC 'TZ=UTC * * * * *'
jobschedctl next 'TZ=Europe/Nowhere * * * * *'
jobschedctl next --from yesterday '* * * * *'
jobschedctl next --from 2024-02-30T00:00:00Z '* * * * *'
jobschedctl next --from 2024-01-01T00:00:00X '* * * * *'
jobschedctl next --from 2024-01-01T24:00:00Z '* * * * *'
jobschedctl next --from 2300-01-01T00:00:00 '* * * * *'
jobschedctl next --count 0 '* * * * *'
jobschedctl next --count 100001 '* * * * *'
jobschedctl next --count 1x '* * * * *'
jobschedctl next --count '* * * * *'
jobschedctl next
jobschedctl next 0 0 '*' '*' '*'
jobschedctl next --strict '* * * * *'
jobschedctl next -s '* * * * *'
jobschedctl next --from
jobschedctl frobnicate
jobschedctl "$(printf 'a\033[31mb\302\233c\342\200\256d\377')"
jobschedctl
jobschedctl help frobnicate
jobschedctl version extra
jobschedctl lint
jobschedctl lint /nonexistent/crontab
jobschedctl lint /
jobschedctl lint --zone Europe/Nowhere sample.crontab
# Not options: the library says what is wrong with them.
jobschedctl next --utc '-5 * * * *'
jobschedctl next '-* * * * *' --utc
jobschedctl next '-,1 * * * *'
jobschedctl next '-a b'
jobschedctl next --utc -- '-a'
jobschedctl next -n 0 '-5 * * * *'
jobschedctl next -5
jobschedctl explain --key 'my job' --from=2024-01-01T00:00:00Z --zone='no zone' 'H 0 * * *'
jobschedctl next '--key=my job' '-60 * * * *'
# The word at fault, not its neighbour.
jobschedctl next -us '* * * * *'
jobschedctl next '* * * * *' -js
jobschedctl next '* * * * *' --strict --utc
jobschedctl next '* * * * *' --utc=1
jobschedctl next '* * * * *' -n
jobschedctl next -z
# An empty zone is none.
jobschedctl next --zone '' 'TZ=Nope 0 0 * * *'
jobschedctl lint --namespace '' sample.crontab
jobschedctl lint --namespace "$(printf '%0201d' 0)" sample.crontab
# The way to a cluster: what is refused before anything is opened.
unset JOBSCHED_LOCK || true
jobschedctl jobs
jobschedctl jobs --lock redis://user:secret@localhost
jobschedctl jobs --lock 'postgresql://localhost/app?password=secret'
# Whatever a client library takes for a password, and what it does not although it was meant.
jobschedctl jobs --lock 'redis://u:pa#ss@host'
jobschedctl jobs --lock 'redis://u:pa/ss@host'
jobschedctl jobs --lock 'redis://:pa?ss@host/0'
jobschedctl jobs --lock 'redis://u:p@ss@host'
jobschedctl jobs --lock 'postgresql://h/db?pass%77ord=secret'
jobschedctl jobs --lock 'postgresql://h/db?user=u&%73slpassw%6Frd=secret'
jobschedctl jobs --lock 'postgresql://h/db?scram_client_ke%79=secret' --json
jobschedctl jobs --lock 'redis://h?sentinel=m&sentinel_password=secret'
jobschedctl jobs --lock 'nix:user:secret@h'
# '@host' was forgotten: the password stands where a port would.
jobschedctl jobs --lock postgresql://user:secret/db
jobschedctl jobs --lock redis://app:secret
jobschedctl jobs --lock 'nix://h:1,user:123456'
jobschedctl jobs --lock 'nix://[::1]:1x'
jobschedctl jobs --lock single:
jobschedctl jobs --lock nix:
# A user, a port and an '@' elsewhere are none.
jobschedctl jobs --lock 'nix://user@h:1/db?name=passwor%'
jobschedctl jobs --lock 'nix://h:1,[::1]:65535/db?x=a:b'
jobschedctl jobs --lock 'sqlite:/nowhere/a:b@c.db'
# Asking makes no store.
jobschedctl jobs --lock sqlite:/nowhere/jobs.db
jobschedctl doctor --lock sqlite:/nowhere/jobs.db
# Nobody there: nothing is promised.
jobschedctl pause x --lock redis://127.0.0.1:1
jobschedctl pause x --lock postgresql://127.0.0.1:1/x
jobschedctl trigger x --lock redis://127.0.0.1:1 --json
jobschedctl doctor --lock redis://127.0.0.1:1
jobschedctl doctor --lock postgresql://127.0.0.1:1/x --json
jobschedctl jobs --lock sqlite:x --lock-file y
jobschedctl jobs --lock-file /nowhere/at/all
jobschedctl jobs --lock-file /dev/null --json
jobschedctl show
jobschedctl jobs --watch 0s --lock single:
jobschedctl trigger a --wait --timeout never --lock single:
