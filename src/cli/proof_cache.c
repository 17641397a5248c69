// proof_cache.c - verdicts of the static check, kept by content; see proof.h.
//
// An entry is one file: a line with the key, the counts, and length and hash of the report, and the
// report. Whatever does not fit together is passed over, and proved again.
#include "proof.h"
#include "../../include/baton.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ENTRIES: more than that, and the oldest goes. ENTRY_BYTES: of one file.
enum { ENTRIES = 512, ENTRY_BYTES = 1 << 20, PATH_BYTES = 1024 };
static const char head[] = "baton proof 1";
static const char ending[] = ".proof";

// ---- the folder ---------------------------------------------------------------------------------

static bool folder_name(char *out)
{
    const char *own = getenv("BATON_CACHE"), *user = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int n = -1;
    if (own) n = snprintf(out, PATH_BYTES, "%s", own);
    else if (user && *user) n = snprintf(out, PATH_BYTES, "%s/baton", user);
    else if (home && *home) n = snprintf(out, PATH_BYTES, "%s/.cache/baton", home);
    return n > 0 && n < PATH_BYTES - 64;
}

static bool entry_name(ProofKey key, char *out)
{
    char folder[PATH_BYTES];
    if (!folder_name(folder)) return false;
    int n = snprintf(out, PATH_BYTES, "%.*s/%016llx%016llx%s", PATH_BYTES - 64, folder,
                     (unsigned long long)key.half[0], (unsigned long long)key.half[1], ending);
    return n > 0 && n < PATH_BYTES;
}

// Removes the oldest entries beyond the limit. Another process may do the same at this moment: a
// file that is gone already is no loss.
static void trim(const char *folder)
{
    char path[PATH_BYTES + 256], oldest[PATH_BYTES + 256];
    for (int round = 0; round < 8; round++) {
        DIR *d = opendir(folder);
        if (!d) return;
        int n = 0;
        struct timespec age = {0};
        for (struct dirent *e; (e = readdir(d));) {
            size_t len = strlen(e->d_name), tail = strlen(ending);
            struct stat s;
            if (len < tail || strcmp(e->d_name + len - tail, ending) != 0) continue;
            snprintf(path, sizeof path, "%.*s/%.250s", PATH_BYTES - 1, folder, e->d_name);
            if (stat(path, &s)) continue;
            if (!n || s.st_mtim.tv_sec < age.tv_sec ||
                (s.st_mtim.tv_sec == age.tv_sec && s.st_mtim.tv_nsec < age.tv_nsec)) {
                age = s.st_mtim;
                memcpy(oldest, path, sizeof oldest);
            }
            n++;
        }
        closedir(d);
        if (n <= ENTRIES) return;
        unlink(oldest);
    }
}

// ---- entries ------------------------------------------------------------------------------------

// The program itself is part of the key: another build of it may prove more, or less.
static u64 program_hash(u64 seed)
{
    struct stat s;
    u64 part[4] = {0};
    if (stat("/proc/self/exe", &s) == 0) {
        part[0] = (u64)s.st_ino;
        part[1] = (u64)s.st_size;
        part[2] = (u64)s.st_mtim.tv_sec;
        part[3] = (u64)s.st_mtim.tv_nsec;
    }
    return hash_bytes(part, sizeof part,
                      hash_bytes(BATON_VERSION_TEXT, sizeof BATON_VERSION_TEXT, seed));
}

// The texts of kernels and plan say all that a part reads: conditions of the contract are among the
// plan's checks, and places of the source stand in the kernels.
ProofKey proof_key(const ThreadModule *m, const Plan *plan)
{
    Buf text = {0};
    ProofKey key;
    if (plan) plan_print(plan, "", &text);
    thread_print(m, &text);
    for (int i = 0; i < 2; i++)
        key.half[i] = hash_bytes(text.s ? text.s : "", text.n,
                                 program_hash(i ? 0x9e3779b97f4a7c15u : 0));
    buf_free(&text);
    return key;
}

bool proof_find(Arena *a, ProofKey key, Proof *out)
{
    char path[PATH_BYTES], name[32];
    unsigned long long half[2], hash;
    unsigned long bytes;
    int broken, open, start = 0;
    Buf file = {0};
    if (!entry_name(key, path) || file_read(path, &file, ENTRY_BYTES) || !file.n) {
        buf_free(&file);
        return false;
    }
    bool whole = sscanf(file.s, "baton proof %31s %llx %llx %d %d %lu %llx%n", name, &half[0],
                        &half[1], &broken, &open, &bytes, &hash, &start) == 7 &&
                 strcmp(name, head + sizeof "baton proof") == 0 && half[0] == key.half[0] &&
                 half[1] == key.half[1] && broken >= 0 && open >= 0 && file.s[start] == '\n' &&
                 file.n - (size_t)start - 1 == bytes &&
                 hash_bytes(file.s + start + 1, bytes, (u64)broken * 31 + (u64)open) == hash;
    if (whole)
        *out = (Proof){.broken = broken, .open = open, .cached = true,
                       .text = arena_strndup(a, file.s + start + 1, bytes)};
    buf_free(&file);
    return whole;
}

void proof_keep(ProofKey key, const Proof *p)
{
    char path[PATH_BYTES], folder[PATH_BYTES];
    if (!entry_name(key, path) || !folder_name(folder)) return;
    folder_make(folder);
    size_t n = strlen(p->text);
    Buf file = {0};
    buf_printf(&file, "%s %llx %llx %d %d %lu %llx\n%s", head, (unsigned long long)key.half[0],
               (unsigned long long)key.half[1], p->broken, p->open, (unsigned long)n,
               (unsigned long long)hash_bytes(p->text, n, (u64)p->broken * 31 + (u64)p->open),
               p->text);
    // Without a place to keep it the next run proves it again.
    if (file.n <= ENTRY_BYTES && !file_write(path, file.s, file.n)) trim(folder);
    buf_free(&file);
}
