/* mutants.c: which deliberate fault is switched on. Only in sim_mutants. */
#include <string.h>

int jsi_mutant = JSI_MUTANT_none;

int jsi_mutant_choose(const char *name)
{
    static const char *const names[] = {
#define NAME_OF(name) #name,
        SIM_MUTANT_MAP(NAME_OF)
#undef NAME_OF
    };
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            jsi_mutant = i;
            return 1;
        }
    }
    return 0;
}
