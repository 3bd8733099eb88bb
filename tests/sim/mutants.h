/* mutants.h: deliberate faults in the engine and in the model, for the program sim_mutants. Included
 * before everything else there (see CMakeLists.txt); the library's own build knows nothing of it. */
#ifndef SIM_MUTANTS_H
#define SIM_MUTANTS_H

/* clang-format off: one row each, however long */
#define SIM_MUTANT_MAP(X)                                                                          \
    X(none)                                                                                        \
    X(all_lead)                                                                                    \
    X(begins_after_lost)                                                                           \
    X(cancel_unheard)                                                                              \
    X(closes_silently)                                                                             \
    X(cut_dropped)                                                                                 \
    X(cut_new_generation)                                                                          \
    X(due_by_wall)                                                                                 \
    X(error_is_lost)                                                                               \
    X(error_is_won)                                                                                \
    X(findings_ignored)                                                                            \
    X(finish_once)                                                                                 \
    X(flips_back)                                                                                  \
    X(gone_is_kept)                                                                                \
    X(held_is_over)                                                                                \
    X(keeper_gives_up)                                                                             \
    X(lease_by_wall)                                                                               \
    X(lease_from_reply)                                                                            \
    X(lease_revives)                                                                               \
    X(lease_too_long)                                                                              \
    X(never_back)                                                                                  \
    X(pending_is_over)                                                                             \
    X(rearm_from_now)                                                                              \
    X(renewal_from_reply)                                                                          \
    X(repeat_is_new)                                                                               \
    X(replace_anyway)                                                                              \
    X(session_end_ignored)                                                                         \
    X(skip_miscounted)                                                                             \
    X(skip_unclaimed)                                                                              \
    X(stood_down_runs)                                                                             \
    X(unknown_is_lost)                                                                             \
    X(unknown_trigger_silent)                                                                      \
    X(vouch_ignored)                                                                               \
    X(model_all_in_force)                                                                          \
    X(model_delay_from_mark)                                                                       \
    X(model_edit_keeps_mark)                                                                       \
    X(model_epoch_stays)                                                                           \
    X(model_if_is_anyway)                                                                          \
    X(model_if_revives)                                                                            \
    X(model_never_early)                                                                           \
    X(model_no_cancel)                                                                             \
    X(model_no_floor)                                                                              \
    X(model_no_generation)                                                                         \
    X(model_no_grace)                                                                              \
    X(model_no_holder)                                                                             \
    X(model_no_mark)                                                                               \
    X(model_no_moved)                                                                              \
    X(model_no_pause)                                                                              \
    X(model_no_quarantine)                                                                         \
    X(model_no_token)                                                                              \
    X(model_no_tombstone)                                                                          \
    X(model_pause_lost)                                                                            \
    X(model_pause_spares_triggers)                                                                 \
    X(model_repeat_of_any)                                                                         \
    X(model_short_watch)                                                                           \
    X(model_skip_unwritten)                                                                        \
    X(model_start_moves_mark)                                                                      \
    X(model_start_resumes)                                                                         \
    X(model_token_stays)                                                                           \
    X(model_told_twice)                                                                            \
    X(model_trigger_lost)                                                                          \
    X(model_untold)
/* clang-format on */

enum jsi_mutant {
#define SIM_MUTANT_ENUM_(name) JSI_MUTANT_##name,
    SIM_MUTANT_MAP(SIM_MUTANT_ENUM_)
#undef SIM_MUTANT_ENUM_
};

extern int jsi_mutant;
int jsi_mutant_choose(const char *name); /* 0: there is none of that name */

#define JSI_MUTANT(name) (jsi_mutant == JSI_MUTANT_##name)

#endif
