// thread_test.c - the files of tests/thread: a file without `// error:` must read, check clean,
// print, read back to the same text and have PTX; a file with such lines must give exactly those
// errors at those lines. Then: every operation of ops.h occurs in a clean file, text that was cut or
// changed at random never crashes the reader or the checker, and a kernel built by hand equals its
// text.
//
// Usage: thread_test [DIR]. Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/emit/ptx.h"
#include "../../src/thread/thread.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int passed, failed;
    bool seen[OP_COUNT];
    u64 random;
} Test;

static void check(Test *t, bool ok, const char *what, const char *detail)
{
    if (ok) {
        t->passed++;
        return;
    }
    if (t->failed++ < 20) printf("FAILED %s: %s\n", what, detail);
}

static u32 next_random(Test *t, u32 n)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (u32)(t->random >> 33) % n;
}

typedef struct {
    Arena *arena;
    Diag *diag;
    ExprPool *exprs;
} Session;

static Session session_new(void)
{
    Session s = {.arena = arena_new((size_t)1 << 30)};
    s.diag = diag_new(s.arena);
    s.exprs = expr_pool_new(s.arena, intern_new(s.arena));
    return s;
}

static ThreadModule *read_text(Session *s, const char *name, const char *text, size_t n)
{
    u16 file = diag_add_file(s->diag, name, text, n);
    return thread_read(s->arena, s->exprs, s->diag, file, text, n);
}

// ---- files --------------------------------------------------------------------------------------

static void note_ops(Test *t, const ThreadBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        t->seen[b->at[i]->op] = true;
        note_ops(t, &b->at[i]->body);
        note_ops(t, &b->at[i]->other);
    }
}

static void clean_file(Test *t, Session *s, const char *path, const Buf *text)
{
    Buf first = {0}, second = {0}, ptx = {0}, errors = {0};
    ThreadModule *m = read_text(s, path, text->s, text->n), *again = NULL;
    bool clean = m && thread_check(m, s->diag);
    diag_print(s->diag, &errors);
    check(t, clean, path, errors.s ? errors.s : "no errors");
    if (clean) {
        for (int i = 0; i < m->fns.n; i++) note_ops(t, &m->fns.at[i]->body);
        thread_print(m, &first);
        again = read_text(s, path, first.s, first.n);
    }
    if (again) thread_print(again, &second);
    check(t, again && strcmp(first.s, second.s) == 0, path, "print, read, print");
    check(t, clean && ptx_print(m, NULL, s->diag, &ptx) && strstr(ptx.s, ".target sm_90a"), path,
          "PTX");
    buf_free(&first);
    buf_free(&second);
    buf_free(&ptx);
    buf_free(&errors);
}

// The text of the `// error:` comment in a line, without blanks at its end; NULL when there is none.
static const char *expected(Session *s, const char *line)
{
    size_t n = strcspn(line, "\n");
    char *copy = arena_strndup(s->arena, line, n), *at = strstr(copy, "// error: ");
    if (!at) return NULL;
    at += strlen("// error: ");
    for (n = strlen(at); n && at[n - 1] == ' '; n--) at[n - 1] = 0;
    return at;
}

// Does the printed list hold an error at this line with this text?
static bool has_error(const char *list, const char *path, int line, const char *text)
{
    char place[600];
    snprintf(place, sizeof place, "%s:%d:", path, line);
    for (const char *at = list; (at = strstr(at, place)); at++) {
        const char *end = strchr(at, '\n'), *found = strstr(at, text);
        if (found && (!end || found < end)) return true;
    }
    return false;
}

static void faulty_file(Test *t, Session *s, const char *path, const Buf *text)
{
    Buf errors = {0};
    ThreadModule *m = read_text(s, path, text->s, text->n);
    if (m) thread_check(m, s->diag);
    diag_print(s->diag, &errors);
    int want = 0, line = 1;
    for (const char *at = text->s; at;
         at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL, line++) {
        const char *e = expected(s, at);
        if (!e) continue;
        want++;
        check(t, errors.s && has_error(errors.s, path, line, e), path, e);
    }
    if (diag_errors(s->diag) != want) printf("%s", errors.s ? errors.s : "");
    check(t, diag_errors(s->diag) == want, path, "number of errors");
    buf_free(&errors);
}

// ---- random damage ------------------------------------------------------------------------------

// Cuts, doubles or overwrites parts of a good text. Only crashes and sanitizers can fail here, and
// a text that still reads must print and read back to the same.
static void damaged(Test *t, const char *path, const Buf *text)
{
    static const char alphabet[] = "%$[]{}();:@!.,+-*0123456789abmx \n\"#/";
    for (int n = 0; n < 300; n++) {
        Session s = session_new();
        Buf bad = {0}, first = {0}, second = {0};
        buf_write(&bad, text->s, text->n);
        for (int k = 1 + (int)next_random(t, 3); k > 0; k--) {
            u32 at = next_random(t, (u32)bad.n);
            if (next_random(t, 3)) bad.s[at] = alphabet[next_random(t, sizeof alphabet - 1)];
            else if (next_random(t, 2)) bad.s[at] = (char)next_random(t, 256);
            else bad.n = MAX(at, 1u);
        }
        ThreadModule *m = read_text(&s, path, bad.s, bad.n);
        check(t, m || diag_errors(s.diag), path, "refused without a message");
        if (m) {
            thread_print(m, &first);
            ThreadModule *again = read_text(&s, path, first.s, first.n);
            if (again) thread_print(again, &second);
            check(t, again && strcmp(first.s, second.s) == 0, path,
                  "damaged text, print, read, print");
            if (thread_check(m, s.diag)) ptx_print(m, NULL, s.diag, &second);
        }
        buf_free(&bad);
        buf_free(&first);
        buf_free(&second);
        arena_free(s.arena);
    }
}

static void one_file(Test *t, const char *path)
{
    Buf text = {0};
    const char *why = file_read(path, &text, 1 << 24);
    check(t, !why, path, why ? why : "");
    if (why) return;
    Session s = session_new();
    bool faulty = strstr(text.s, "// error: ") != NULL;
    if (faulty) faulty_file(t, &s, path, &text);
    else clean_file(t, &s, path, &text);
    arena_free(s.arena);
    damaged(t, path, &text);
    buf_free(&text);
}

static int all_files(Test *t, const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));) {
        char path[512];
        size_t length = strlen(e->d_name);
        if (length < 5 || strcmp(e->d_name + length - 4, ".thr") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        one_file(t, path);
        n++;
    }
    closedir(d);
    return n;
}

// ---- inputs that grow ---------------------------------------------------------------------------

static void hostile(Test *t)
{
    Session s = session_new();
    Buf deep = {0}, wide = {0}, errors = {0}; // texts outlive the messages about them
    buf_puts(&deep, "kernel k\n threads 32\n reg b32 x\n reg pred p\n{\n");
    for (int i = 0; i < 100000; i++) buf_puts(&deep, "if %p {\n");
    check(t, !read_text(&s, "deep", deep.s, deep.n), "100000 nested regions", "accepted");
    buf_puts(&wide, "kernel k\n threads 32\n reg b32 x\n{\n");
    for (int i = 0; i < 20; i++) buf_printf(&wide, "unroll u%d 1000 {\n", i);
    buf_puts(&wide, "add.s32 %x, %x, 1\n");
    for (int i = 0; i < 20; i++) buf_puts(&wide, "}\n");
    buf_puts(&wide, "}\n");
    ThreadModule *m = read_text(&s, "wide", wide.s, wide.n);
    check(t, m && !thread_check(m, s.diag), "1000^20 operations", "accepted");
    diag_print(s.diag, &errors);
    check(t, strstr(errors.s, "operations after unrolling") != NULL, "1000^20 operations",
          errors.s);
    buf_free(&deep);
    buf_free(&wide);
    buf_free(&errors);
    arena_free(s.arena);
}

// ---- the builder --------------------------------------------------------------------------------

// Registers and unroll variables of equal name get different ones; the text of what was built is
// pinned.
static void built_by_hand(Test *t)
{
    Session s = session_new();
    ThreadModule m = {.arena = s.arena, .exprs = s.exprs, .diag = s.diag};
    ThreadFn fn = {.name = intern(expr_pool_names(s.exprs), "made"), .threads = 32, .cluster = 1};
    ThreadBuilder b = {.mod = &m, .fn = &fn, .at = &fn.body};
    vec_push(s.arena, &m.fns, &fn);
    int x = thread_add_reg(&b, "x.y", RC_B32, 1), y = thread_add_reg(&b, "x_y", RC_B32, 8);
    int p = thread_add_reg(&b, "p", RC_PRED, 1), u, v;
    ThreadBlock *outer, *inner;
    EMIT(&b, OP_MOV, TT_B32, opd_reg(x, 0), opd_sreg(SR_TID));
    EMIT(&b, OP_SETP, TT_S32, opd_reg(p, 0), opd_reg(x, 0), opd_imm(4))->cmp = CMP_LT;
    thread_open_unroll(&b, "i", 4, &u, &outer);
    thread_open_unroll(&b, "i", 2, &v, &inner);
    b.guard = opd_reg(p, 0);
    b.guard.negate = true;
    Operand d = opd_plus(opd_plus(opd_reg(y, 0), u, 2), v, 1);
    EMIT(&b, OP_MOV, TT_B32, d, opd_plus(opd_imm(7), u, 3));
    b.guard = (Operand){0};
    thread_close(&b, inner);
    thread_close(&b, outer);
    Buf text = {0}, errors = {0};
    thread_print(&m, &text);
    const char *want =
        "source none\nkernel made\n  threads 32\n  reg b32 x_y, x_y_1[8]\n  reg pred p\n{\n"
        "  mov.b32 %x_y, tid\n  setp.lt.s32 %p, %x_y, 4\n  unroll i 4 {\n"
        "    unroll i_1 2 {\n      @!%p mov.b32 %x_y_1[2*$i+$i_1], 3*$i+7\n    }\n  }\n}\n";
    check(t, strcmp(text.s, want) == 0, "a kernel built by hand", text.s);
    bool clean = thread_check(&m, s.diag);
    diag_print(s.diag, &errors);
    check(t, clean, "a kernel built by hand", errors.s ? errors.s : "");
    buf_free(&text);
    buf_free(&errors);
    arena_free(s.arena);
}

int main(int argc, char **argv)
{
    Test t = {.random = 1};
    int files = all_files(&t, argc > 1 ? argv[1] : "tests/thread");
    check(&t, files > 0, "files", "none found; run from the repository or name the folder");
    for (int i = 0; i < OP_COUNT; i++)
        check(&t, t.seen[i], "operation without a test file", thread_op[i].name);
    hostile(&t);
    built_by_hand(&t);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed != 0;
}
