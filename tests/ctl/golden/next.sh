# shellcheck shell=sh
# next and prev: the table, --utc, clock changes, ends.
jobschedctl next --from 2024-01-05T09:00:00Z '0 9 * * 1-5'
jobschedctl next --zone America/New_York --from 2024-03-08T00:00:00Z '30 2 * * *'
jobschedctl next --zone America/New_York --from 2024-03-08T00:00:00Z --utc --count 3 '30 2 * * *'
jobschedctl next --zone America/New_York --from 2024-11-03T00:45 -n 4 '*/30 * * * *'
jobschedctl next --zone America/New_York --from 2024-03-10T01:45 -n 2 '*/15 * * * *'
jobschedctl next --zone America/New_York --from 2024-03-09T12:00 -n 1 '0,30 2 * * *'
jobschedctl prev --zone America/New_York --from 2024-11-05T00:00:00Z -n 2 '30 1 * * *'
jobschedctl prev --utc --from 2024-01-01T00:00:00Z -n 2 '0 0 29 2 *'
jobschedctl next --zone Africa/Monrovia --from 1972-01-01T00:00:00Z -n 1 '0 0 * * *'
jobschedctl next 'CRON_TZ=Asia/Kolkata 0 0 * * *' --from 2024-01-01T00:00 -n 2
# strictly after, and strictly before
jobschedctl next --utc --from 2024-01-01T00:00:00Z -n 1 '0 0 * * *'
jobschedctl next --utc --from 2023-12-31T23:59:59Z -n 1 '0 0 * * *'
jobschedctl prev --utc --from 2024-01-01T00:00:00Z -n 1 '0 0 * * *'
# the forms of --from
jobschedctl next --utc -n 1 --zone Europe/Berlin --from 2024-06-01T02:00 '* * * * *'
jobschedctl next --utc -n 1 --zone Europe/Berlin --from 2024-03-31T02:30 '* * * * *'
jobschedctl next --utc -n 1 --zone Europe/Berlin --from 2024-10-27T02:30:00 '* * * * *'
jobschedctl next --utc -n 1 --from 2024-06-01T02:00:00+05:30 '* * * * *'
jobschedctl next --utc -n 1 --from 2024-06-01T02:00:00.999-00:30 '* * * * * *'
jobschedctl next --utc -n 1 --from 1969-12-31T23:59:59Z '* * * * *'
jobschedctl prev --utc -n 1 --from 9999-12-31T23:59:59Z '* * * * *'
# ends
jobschedctl next '0 0 30 2 *'
jobschedctl next --utc '0 0 30 2 *'
jobschedctl next --utc --from 2199-12-31T00:00:00Z -n 3 '0 12 * * *'
jobschedctl next --from 2199-12-31T00:00:00Z -n 3 '0 12 * * *'
jobschedctl prev --utc --from 1970-01-01T12:00:00Z -n 3 '0 0 * * *'
# other forms
jobschedctl next --from 2024-01-01T00:00:00Z -n 2 --key backup 'H H * * *'
jobschedctl next --utc --from 2024-01-01T00:00:00Z -n 2 '@every 90m'
jobschedctl next --from 2024-01-01T00:00:00Z -n 2 '@after 10m'
jobschedctl prev --utc --from 2024-01-01T00:00:00Z '@after 10m'
jobschedctl next --utc --zone Europe/Berlin --from 2024-01-01T00:00:00Z '@at 2024-03-31T02:30:00'
