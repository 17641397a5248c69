// tree.h - what the reader and the lookups of json.h share.
#ifndef BATON_JSON_TREE_H
#define BATON_JSON_TREE_H

#include "json.h"

struct JsonDocument {
    const char *name, *text; // valid JSON, ends in NUL
    Diag *diag;
    u16 file;                // of the Diag; 0: nothing was reported yet
    bool failed;
    JsonValue empty[2];      // what a lookup returns in place of a list, an object
};

#endif
