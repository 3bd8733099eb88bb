# shellcheck shell=sh
# lint: findings with line and column, statuses.
jobschedctl lint --from 2024-01-01T00:00:00Z sample.crontab
jobschedctl lint --from 2024-01-01T00:00:00Z clean.crontab
jobschedctl lint --from 2024-01-01T00:00:00Z warnings.crontab
jobschedctl lint --from 2024-01-01T00:00:00Z --strict warnings.crontab
jobschedctl lint --from 2024-01-01T00:00:00Z hostile.crontab
jobschedctl lint --from 2024-01-01T00:00:00Z --json hostile.crontab
jobschedctl lint --from 2024-01-01T00:00:00Z /dev/null
jobschedctl lint --from 2024-01-01T00:00:00Z --zone Europe/Berlin - < sample.crontab
# Whether a line ever fires is judged in its zone, too: there it is 1969 still.
jobschedctl lint --from 2024-01-01T00:00:00Z --zone America/New_York once.crontab
jobschedctl lint --from 2024-01-01T00:00:00Z once.crontab
# H picks by namespace and name: 02:00 in the one, which a gap skips, and 01:00 in the other.
jobschedctl lint --from 2024-01-01T00:00:00Z --zone Europe/Berlin picked.crontab
jobschedctl lint --from 2024-01-01T00:00:00Z --zone Europe/Berlin --namespace other picked.crontab
# What a gap takes from a job that is rare is told although its next time is far off.
jobschedctl lint --from 2024-01-01T00:00:00Z clocks.crontab
jobschedctl lint --from 2011-01-01T00:00:00Z clocks.crontab
