// bench_cpu_count.c - instructions of a fixed list of items: valgrind runs this program as a child,
// once for each item, and callgrind counts. The counts of one program are the same to a few hundred
// thousandths from run to run, whatever else the machine does.
//
// What could make them differ is kept out: one thread (arrays below the size from which loops are
// shared among processors), no cache of proofs, a fixed seed, an environment of a few words.
#include "bench_cpu.h"
#include "program.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Beside `baton build` of every kernel: words behind the kernel's file.
typedef struct {
    const char *command, *kernel; // "check", "gemm/gemm"
    const char *words[8];
} Item;
static const Item items[] = {
    {"check", "attention/v1", {"--no-cache"}},
    {"check", "learn/copy", {"--no-cache"}},
    {"run", "gemm/gemm", {"M=64", "N=64", "K=128", "--device=emu", "--once"}},
    {"run", "attention/v2", {"B=1", "H=1", "S=128", "--device=emu", "--once"}},
};
enum { MOST_WORDS = 24 };

// The number behind `totals:` of the file that callgrind leaves, or -1.
static i64 read_total(const char *path)
{
    Buf file = {0};
    i64 total = -1;
    if (!file_read(path, &file, (size_t)64 << 20) && file.n) {
        for (const char *line = file.s; line; line = strchr(line, '\n')) {
            line += *line == '\n';
            if (strncmp(line, "totals:", 7) == 0) total = strtoll(line + 7, NULL, 10);
            if (!*line) break;
        }
    }
    buf_free(&file);
    return total;
}

// What valgrind says itself stands behind ==number==; the program's own words say more.
static const char *reason(const Buf *text, Arena *a)
{
    const char *any = NULL;
    for (const char *line = text->n ? text->s : ""; *line;) {
        size_t n = strcspn(line, "\n");
        if (n && strncmp(line, "==", 2) != 0) return arena_strndup(a, line, n);
        if (n && !any) any = arena_strndup(a, line, n);
        line += n + (line[n] != 0);
    }
    return any ? any : "it printed nothing";
}

// argv is baton's own, without the program. -1: the reason is in the Diag.
static i64 count_one(CpuJob *j, const char *item, const char *const *argv)
{
    Arena *a = j->arena;
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *file = program_scratch_file(a);
    if (n <= 0 || !file) {
        diag_error(j->diag, (Loc){0}, NULL, "%s",
                   file ? "cannot find this program's own file"
                        : "no scratch file could be made for callgrind");
        return -1;
    }
    self[n] = 0;
    const char *const env[] = {
        "PATH=/usr/bin:/bin", "HOME=/", "LC_ALL=C", "BATON_CACHE=", "CUDA_VISIBLE_DEVICES=", NULL};
    const char *all[MOST_WORDS] = {"valgrind", "--tool=callgrind",
                                   arena_printf(a, "--callgrind-out-file=%s", file), self};
    int words = 4;
    for (int i = 0; argv[i]; i++) {
        ASSERT(words + 1 < MOST_WORDS);
        all[words++] = argv[i];
    }
    Buf text = {0};
    int status = 0;
    bool ran = program_run(all, env, &text, &status);
    i64 total = ran && program_succeeded(status) ? read_total(file) : -1;
    if (total < 0)
        diag_error(j->diag, (Loc){0}, NULL, "callgrind has no count of `%s`: %s", item,
                   reason(&text, a));
    unlink(file);
    buf_free(&text);
    return total;
}

static bool add_count(CpuJob *j, const char *item, const char *const *argv, CpuCounts *out)
{
    if (j->progress) {
        fprintf(stderr, "\r\033[Kcounting %s", item);
        fflush(stderr);
    }
    CpuCount c = {item, count_one(j, item, argv)};
    if (j->progress) fputs("\r\033[K", stderr);
    if (c.count < 0) return false;
    vec_push(j->arena, out, c);
    return true;
}

static bool count_items(CpuJob *j, const CpuKernel *k, CpuCounts *out)
{
    for (int i = 0; i < COUNT(items); i++) {
        const char *argv[MOST_WORDS] = {items[i].command, k->path};
        if (strcmp(items[i].kernel, k->name) != 0) continue;
        for (int w = 0; w < COUNT(items[i].words) && items[i].words[w]; w++)
            argv[2 + w] = items[i].words[w];
        if (!add_count(j, arena_printf(j->arena, "%s %s", items[i].command, k->name), argv, out))
            return false;
    }
    return true;
}

int cpu_count(CpuJob *j, CpuCounts *out)
{
#if defined(__SANITIZE_ADDRESS__)
    diag_error(j->diag, (Loc){0}, "build without SAN=1",
               "a program with sanitizers cannot be counted by valgrind");
    return EXIT_INPUT;
#endif
    if (!program_is_here("valgrind")) {
        diag_error(j->diag, (Loc){0}, "one command installs it: sudo sh tools/install.sh",
                   "counting instructions needs valgrind, and there is none on PATH");
        return EXIT_INPUT;
    }
    for (int k = 0; k < j->kernels.n; k++) {
        const CpuKernel *kernel = &j->kernels.at[k];
        const char *const argv[] = {"build", kernel->path, "-o", "/dev/null", NULL};
        if (!add_count(j, arena_printf(j->arena, "build %s", kernel->name), argv, out) ||
            !count_items(j, kernel, out))
            return EXIT_INPUT;
    }
    return EXIT_RIGHT;
}
