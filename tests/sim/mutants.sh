#!/bin/sh
# mutants.sh SIM_MUTANTS [NAME...]: every deliberate fault must be found by the simulator within its
# number of seeds, and by a check of the guarantee that is named. Without names: all in the table
# below. Prints a line for each; fails when one was not found, or by another check.
set -eu

sim=$1
shift

# name, guarantee of which a violation must be reported, last seed, further options
table()
{
    cat << 'END'
all_lead G5 40 --only none
begins_after_lost G5 30 --only freeze
cancel_unheard G6 20 --only control
closes_silently G5 30 --only restart
cut_dropped G14 10 --only rollout
cut_new_generation G11 20 --only rollout
due_by_wall G11 10 --only node-clock
error_is_lost G8 10 --only lost-reply
error_is_won G1 10 --only lost-reply
findings_ignored G6 20 --only control,rollout
finish_once G9 30 --only errors,lost-reply
flips_back G14 10 --only rollout
gone_is_kept G5 60
held_is_over G11 20
keeper_gives_up G8 20 --only errors
lease_by_wall G11 10 --only node-clock,partition
lease_from_reply G5 60 --only freeze,latency
lease_revives G5 60 --only partition,freeze
lease_too_long G5 10 --only partition,freeze
never_back G14 40 --only rollout
pending_is_over G9 10 --only none
rearm_from_now G9 10 --only outage
renewal_from_reply G5 60 --only slow-reply,freeze
repeat_is_new G1 10
replace_anyway G14 10 --only rollout
session_end_ignored G5 10 --only session,errors
skip_miscounted G9 10
skip_unclaimed G9 10
stood_down_runs G14 30 --only rollout,control
unknown_is_lost G8 30 --only lost-reply,late
unknown_trigger_silent G9 20 --only failover,control
vouch_ignored G5 30 --only session,freeze,starve
model_all_in_force G14 10 --only rollout
model_delay_from_mark G9 10 --only none
model_edit_keeps_mark G1 10 --only rollout
model_epoch_stays G2 10 --only failover
model_if_is_anyway G14 20 --only rollout
model_if_revives G6 10 --only rollout
model_never_early G3 10
model_no_cancel G6 20 --only control
model_no_floor G1 10 --only failover
model_no_generation G14 10 --only rollout
model_no_grace G5 40 --only session
model_no_holder G4 10 --only none
model_no_mark G1 10 --only none
model_no_moved G1 10
model_no_pause G6 10 --only control
model_no_quarantine G5 10 --only failover
model_no_token G9 10
model_no_tombstone G6 10 --only control
model_pause_lost G6 10 --only control
model_pause_spares_triggers G6 40 --only control,outage
model_repeat_of_any G1 10 --only none
model_short_watch G5 10 --only partition,freeze
model_skip_unwritten G9 10 --only none
model_start_moves_mark G9 10
model_start_resumes G6 10
model_token_stays G2 10 --only none
model_told_twice G15 10 --only crash,freeze
model_trigger_lost G6 10 --only control
model_untold G15 20 --only crash
END
}

work=$(mktemp)
trap 'rm -f "$work"' EXIT INT TERM
failed=0
table > "$work"
while read -r name guarantee last options; do
    case " $* " in
    "  " | *" $name "*) ;;
    *) continue ;;
    esac
    # shellcheck disable=SC2086  # options are words
    found=$("$sim" --mutant "$name" --seeds "1..$last" --stop $options < /dev/null |
        sed -n 's/^seed \([0-9]*\) .*: \([A-Za-z]*[0-9]*\) at .*$/\1 \2/p' | head -n 1)
    case $found in
    *" $guarantee") echo "$name: found by $guarantee in seed ${found% *}" ;;
    "")
        echo "$name: NOT FOUND in seeds 1..$last"
        failed=1
        ;;
    *)
        echo "$name: found by ${found#* } instead of $guarantee"
        failed=1
        ;;
    esac
done < "$work"
exit "$failed"
