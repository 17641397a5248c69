// cache_test.c - the cache of assembled code: keys, entries that come back whole, entries that were
// damaged, folders that cannot be used, and many processes at once. Needs no driver.
#include "../../rt/rt.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    int passed, failed;
    Arena *arena;
    char *folder; // made for this run
} Test;

static void expect(Test *t, bool ok, const char *what, const char *detail)
{
    if (ok) {
        t->passed++;
        return;
    }
    t->failed++;
    printf("FAILED %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
}

static RtCacheKey key_of(const char *ptx, const char *options, int driver)
{
    return rt_cache_key(ptx, strlen(ptx), options, driver);
}

static bool same_key(RtCacheKey a, RtCacheKey b)
{
    return a.hash[0] == b.hash[0] && a.hash[1] == b.hash[1] && a.length == b.length;
}

static void test_keys(Test *t)
{
    RtCacheKey k = key_of("ret;", "x=1", 13000);
    expect(t, same_key(k, key_of("ret;", "x=1", 13000)), "equal input, equal key", NULL);
    expect(t, !same_key(k, key_of("ret; ", "x=1", 13000)), "the PTX is in the key", NULL);
    expect(t, !same_key(k, key_of("ret;", "x=2", 13000)), "the options are in the key", NULL);
    expect(t, !same_key(k, key_of("ret;", "x=1", 12080)), "the driver is in the key", NULL);
    expect(t, !same_key(key_of("ab", "c", 1), key_of("b", "ca", 1)),
           "the border between texts counts", NULL);
    // Both halves of the hash see every byte.
    RtCacheKey a = key_of("aaaaaaaaaaaaaaaaaaaaaaaaa", "", 1),
               b = key_of("aaaaaaaaaaaaaaaaaaaabaaaa", "", 1);
    expect(t, a.hash[0] != b.hash[0] && a.hash[1] != b.hash[1], "each half of the key sees a byte",
           NULL);
}

static void test_folder_name(Test *t)
{
    setenv("BATON_CACHE", "/one", 1);
    setenv("XDG_CACHE_HOME", "/two", 1);
    setenv("HOME", "/three", 1);
    expect(t, strcmp(rt_cache_dir(t->arena), "/one") == 0, "BATON_CACHE is first", NULL);
    setenv("BATON_CACHE", "", 1);
    expect(t, strcmp(rt_cache_dir(t->arena), "/two/baton") == 0, "then XDG_CACHE_HOME", NULL);
    setenv("XDG_CACHE_HOME", "relative", 1);
    expect(t, strcmp(rt_cache_dir(t->arena), "/three/.cache/baton") == 0, "then HOME", NULL);
    unsetenv("HOME");
    expect(t, !rt_cache_dir(t->arena), "or none", NULL);
}

// Looks the key up and compares; `want` NULL: it must not be there.
static bool holds(Test *t, const char *dir, RtCacheKey k, const char *want, size_t n,
                  const char *log, const char **note)
{
    Buf code = {0}, said = {0};
    bool found = rt_cache_get(t->arena, dir, k, &code, &said, note);
    bool ok = want ? found && code.n == n && memcmp(code.s, want, n) == 0 &&
                         said.n == strlen(log) && memcmp(said.s, log, said.n) == 0
                   : !found && !code.n && !said.n;
    buf_free(&code);
    buf_free(&said);
    return ok;
}

static void test_round_trip(Test *t)
{
    static const char code[] = "machine\0code";
    RtCacheKey k = key_of("a", "", 1), other = key_of("b", "", 1);
    const char *note, *dir = arena_printf(t->arena, "%s/deep/er", t->folder);
    expect(t, holds(t, dir, k, NULL, 0, "", &note) && !*note, "an empty cache has nothing", note);
    const char *why = rt_cache_put(t->arena, dir, k, code, sizeof code, "a log\n");
    expect(t, !why, "an entry is stored, folders are made", why);
    expect(t, holds(t, dir, k, code, sizeof code, "a log\n", &note), "it comes back whole", note);
    expect(t, holds(t, dir, other, NULL, 0, "", &note), "another key finds nothing", note);
    why = rt_cache_put(t->arena, dir, k, "new", 3, "");
    expect(t, !why && holds(t, dir, k, "new", 3, "", &note), "an entry is replaced", why);
    why = rt_cache_put(t->arena, dir, other, "", 0, "");
    expect(t, !why && holds(t, dir, other, "", 0, "", &note), "an empty entry is an entry", why);
}

static const char *entry_file(Test *t, const char *dir, RtCacheKey k)
{
    return arena_printf(t->arena, "%s/%016llx%016llx.cubin", dir, (unsigned long long)k.hash[0],
                        (unsigned long long)k.hash[1]);
}

static void test_damage(Test *t)
{
    const char *note, *dir = arena_printf(t->arena, "%s/damage", t->folder);
    RtCacheKey k = key_of("ptx", "", 1);
    rt_cache_put(t->arena, dir, k, "0123456789", 10, "log");
    const char *path = entry_file(t, dir, k);
    Buf whole = {0};
    expect(t, !file_read(path, &whole, 1 << 20), "the entry is one file with the key's name", path);
    int believed = 0, unnamed = 0;
    for (size_t i = 0; i < whole.n; i++) {
        whole.s[i] ^= 1;
        file_write(path, whole.s, whole.n);
        whole.s[i] ^= 1;
        if (!holds(t, dir, k, NULL, 0, "", &note)) believed++;
        if (!strstr(note, "the entry is damaged")) unnamed++;
        file_write(path, whole.s, i);
        if (!holds(t, dir, k, NULL, 0, "", &note)) believed++;
    }
    buf_putc(&whole, 'x');
    file_write(path, whole.s, whole.n);
    if (!holds(t, dir, k, NULL, 0, "", &note)) believed++;
    expect(t, believed == 0, "no flipped bit, cut or extra byte is believed", NULL);
    expect(t, unnamed == 0, "damage is named", NULL);
    rt_cache_put(t->arena, dir, k, "0123456789", 10, "log");
    expect(t, holds(t, dir, k, "0123456789", 10, "log", &note), "a damaged entry is rebuilt", note);
    // The entry of another key under this name: a collision of names is not believed either.
    RtCacheKey twin = k;
    twin.length++;
    expect(t, holds(t, dir, twin, NULL, 0, "", &note), "the whole key is compared", note);
    buf_free(&whole);
}

static void test_unusable(Test *t)
{
    const char *file = arena_printf(t->arena, "%s/file", t->folder), *note;
    RtCacheKey k = key_of("ptx", "", 1);
    file_write(file, "x", 1);
    const char *why = rt_cache_put(t->arena, file, k, "c", 1, "");
    expect(t, why && strstr(why, "Not a directory"), "a file in the folder's place is said", why);
    why = rt_cache_put(t->arena, arena_printf(t->arena, "%s/below", file), k, "c", 1, "");
    expect(t, why && strstr(why, "Not a directory"), "a file above the folder is said", why);
    why = rt_cache_put(t->arena, "/proc/baton-cache", k, "c", 1, "");
    expect(t, why != NULL, "a folder that cannot be made is said", why);
    expect(t, holds(t, file, k, NULL, 0, "", &note), "and reading from it finds nothing", note);
}

static int count_files(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

// Many processes write the same entry with different contents and read it all the while: each
// reader sees one writer's whole entry or nothing.
enum { PROCESSES = 8, ROUNDS = 200, CODE_BYTES = 50000 };

static int hammer(Test *t, const char *dir, RtCacheKey k, int me)
{
    char *code = malloc(CODE_BYTES);
    int torn = 0;
    memset(code, 'a' + me, CODE_BYTES);
    for (int i = 0; i < ROUNDS; i++) {
        Buf got = {0}, log = {0};
        const char *note;
        if (i % 2 == 0 && rt_cache_put(t->arena, dir, k, code, CODE_BYTES, "l")) torn++;
        bool found = rt_cache_get(t->arena, dir, k, &got, &log, &note);
        if (!found || got.n != CODE_BYTES || got.s[0] != got.s[CODE_BYTES - 1]) torn++;
        buf_free(&got);
        buf_free(&log);
    }
    free(code);
    return torn;
}

static void test_processes(Test *t)
{
    const char *dir = arena_printf(t->arena, "%s/many", t->folder);
    RtCacheKey k = key_of("ptx", "", 1);
    pid_t child[PROCESSES];
    fflush(stdout);
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        if (child[i] == 0) _exit(hammer(t, dir, k, i) ? 1 : 0);
    }
    int bad = 0;
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        if (child[i] < 0 || waitpid(child[i], &status, 0) < 0 || status != 0) bad++;
    }
    expect(t, bad == 0, "processes that share a folder see whole entries only", NULL);
    expect(t, count_files(dir) == 1, "no temporary file is left", NULL);
}

static void remove_tree(const char *path)
{
    DIR *d = opendir(path);
    if (!d) {
        unlink(path);
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        Buf b = {0};
        buf_printf(&b, "%s/%s", path, e->d_name);
        remove_tree(b.s);
        buf_free(&b);
    }
    closedir(d);
    rmdir(path);
}

int main(void)
{
    Test t = {.arena = arena_new(0)};
    char folder[] = "/tmp/baton-cache-test.XXXXXX";
    t.folder = mkdtemp(folder);
    if (!t.folder) {
        printf("FAILED: cannot make a folder in /tmp\n");
        return 1;
    }
    test_keys(&t);
    test_folder_name(&t);
    test_round_trip(&t);
    test_damage(&t);
    test_unusable(&t);
    test_processes(&t);
    remove_tree(t.folder);
    arena_free(t.arena);
    printf("cache: %d passed, %d failed\n", t.passed, t.failed);
    return t.failed != 0;
}
