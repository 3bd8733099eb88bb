# shellcheck shell=sh
# --json everywhere.
jobschedctl next --json --zone America/New_York --from 2024-03-10T00:00:00Z -n 2 '30 2 * * *'
jobschedctl prev --json --from 1970-01-01T00:00:30Z '* * * * *'
jobschedctl next --json '0 0 30 2 *' --from 2024-01-01T00:00:00Z
jobschedctl explain --json --zone Europe/Berlin --from 2024-01-01T00:00:00Z '30 2 31 * MON'
jobschedctl next --json '*/90 * * * *'
jobschedctl next --json --zone Europe/Nowhere '* * * * *'
jobschedctl next --json "$(printf '* * * * \033\303\050')"
jobschedctl lint --json --from 2024-01-01T00:00:00Z sample.crontab
jobschedctl help --json
# Errors of use too, whatever the order.
jobschedctl next --json --count 0 '* * * * *'
jobschedctl next --count 0 '* * * * *' --json
jobschedctl next '* * * * *' --from yesterday -uj
jobschedctl next --strict --json '* * * * *'
jobschedctl next --json
jobschedctl next --json '-5 * * * *'
jobschedctl next --count 0 -- '* * * * *' --json
jobschedctl lint --json /nonexistent/crontab
jobschedctl lint --json
jobschedctl frobnicate --json
jobschedctl help --json frobnicate
