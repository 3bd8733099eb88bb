/* mutant.h: places in the code where a test build can switch on a deliberate fault, to prove that a
 * fault there is found (tests/sim). In every other build the condition is the constant 0, and
 * nothing of it is left. */
#ifndef JSI_MUTANT
#define JSI_MUTANT(name) 0
#endif
