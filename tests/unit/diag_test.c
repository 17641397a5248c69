// diag_test.c - messages: what is kept, in which order, and what is printed of it.
//
// Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/base/base.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    int passed, failed;
} Test;

static void check(Test *t, bool ok, const char *what, const Buf *out)
{
    if (ok) t->passed++;
    else printf("FAILED %s\n%s\n", what, out->s ? out->s : ""), t->failed++;
}

static int occurrences(const Buf *b, const char *text)
{
    int n = 0;
    for (const char *s = b->s; s && (s = strstr(s, text)); s++) n++;
    return n;
}

static void test_order(Test *t)
{
    static const char text[] = "one\n\ttwo three\n";
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    Buf out = {0};
    u16 file = diag_add_file(d, "x.co", text, sizeof text - 1);
    diag_error(d, ((Loc){file, 6, 2}), "write 3", "three");
    diag_error(d, ((Loc){file, 1, 1}), NULL, "one");
    diag_error(d, ((Loc){file, 6, 2}), NULL, "three");
    diag_print(d, &out);
    check(t, out.s && !strcmp(out.s, "x.co:1:1: error: one\n    one\n    ^\n"
                                     "x.co:2:6: error: three\n    \ttwo three\n    \t    ^\n"
                                     "    hint: write 3\n2 errors\n"),
          "order, caret behind a tab, hint, one of two equal messages", &out);
    buf_free(&out);
    arena_free(a);
}

// Warnings are kept up to a limit, but never at the price of an error.
static void test_limits(Test *t)
{
    Arena *a = arena_new(0);
    Diag *d = diag_new(a);
    Buf out = {0};
    for (u32 i = 1; i <= 500; i++) diag_warning(d, ((Loc){0, 1, i}), NULL, "careful %u", i);
    for (u32 i = 1; i <= 2 * DIAG_LIMIT; i++) diag_error(d, ((Loc){0, 1, i}), NULL, "wrong %u", i);
    diag_print(d, &out);
    check(t, occurrences(&out, "warning: careful") < 100, "warnings have a limit", &out);
    check(t, occurrences(&out, "error: wrong") == DIAG_LIMIT, "errors behind many warnings", &out);
    check(t, occurrences(&out, "40 errors, the first 20 shown\n") == 1, "count of errors", &out);
    buf_free(&out);
    arena_free(a);
}

int main(void)
{
    Test t = {0};
    test_order(&t);
    test_limits(&t);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed != 0;
}
