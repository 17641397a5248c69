// without.c - reading of JSON in a build without libjansson: it is refused, with the reason.
#include "json.h"

static JsonValue *refuse(const char *name, Diag *d)
{
    Loc loc = {diag_add_file(d, name, NULL, 0), 0, 0};
    diag_error(d, loc, "install libjansson-dev (sudo sh tools/install.sh) and build again",
               "cannot be read: this baton was built without libjansson (libjansson-dev)");
    return NULL;
}

JsonValue *json_read(Arena *a, const char *name, const char *text, size_t n, Diag *d)
{
    (void)a, (void)text, (void)n;
    return refuse(name, d);
}

JsonValue *json_read_file(Arena *a, const char *path, Diag *d)
{
    (void)a;
    return refuse(path, d);
}
