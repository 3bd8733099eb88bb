/* mutants.h: deliberate faults in the engine and in the model, for the program sim_mutants. Included
 * before everything else there (see CMakeLists.txt); the library's own build knows nothing of it. */
#ifndef SIM_MUTANTS_H
#define SIM_MUTANTS_H

#define SIM_MUTANT_MAP(X)                                                                          \
    X(none)                                                                                        \
    X(model_no_mark)

enum jsi_mutant {
#define SIM_MUTANT_ENUM_(name) JSI_MUTANT_##name,
    SIM_MUTANT_MAP(SIM_MUTANT_ENUM_)
#undef SIM_MUTANT_ENUM_
};

extern int jsi_mutant;
int jsi_mutant_choose(const char *name); /* 0: there is none of that name */

#define JSI_MUTANT(name) (jsi_mutant == JSI_MUTANT_##name)

#endif
