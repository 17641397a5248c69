// tables.h - what is known of the elements of tables that a function of the host fills
// (ops/host.h), so that cases have only such numbers as a launch can have.
#ifndef BATON_VERIFY_TABLES_H
#define BATON_VERIFY_TABLES_H

#include "model.h"

// Can the leaves have the values that they are bound to? Only loads from such tables are asked.
bool tables_allow(Model *m, const Term *leaf, int n);
// The least value that the leaf can have beside those that are bound; 0 where nothing is known.
u64 tables_least(Model *m, Term leaf);

#endif
