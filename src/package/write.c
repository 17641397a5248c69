// write.c - writes a package: all its files, their sums, and the archive. The sums are also how a
// package is known again: only a folder that has them is written over, and then only files that
// stand in them are taken away.
#include "package.h"

#include "../base/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char SUMS[] = "SHA256SUMS";
static const size_t MAX_SUMS = (size_t)1 << 20; // bytes

const PackageSource *package_source(const char *name)
{
    for (int i = 0; i < package_source_count; i++)
        if (strcmp(package_sources[i].name, name) == 0) return &package_sources[i];
    return NULL;
}

// ---- what is in it ------------------------------------------------------------------------------
// Files of the folder package/ that go to other places than their own. Those with words to fill in
// are templates; C sources keep the depth of their folder, and with it their #include lines.
static const struct {
    const char *name, *path;
    bool fill, executable;
} places[] = {
    {"package/README.md", "README.md", true, false},
    {"package/VERSIONS", "VERSIONS", true, false},
    {"package/run.sh", "run.sh", true, true},
    {"package/main.c", "src/main.c", false, false},
    {"package/kernels.h", "src/kernels.h", false, false},
    {"package/without_emulator.c", "src/without_emulator.c", false, false},
};

static void add(Package *p, const char *path, const void *data, size_t n, bool executable)
{
    PackageFile f = {path, data, n, executable};
    vec_push(p->arena, &p->files, f);
}

// A text that was made for this package; its bytes move into the arena.
static void add_text(Package *p, const char *path, Buf *text, bool executable)
{
    add(p, path, arena_strndup(p->arena, text->s, text->n), text->n, executable);
    buf_free(text);
}

static void add_source(Package *p, const PackageSource *s)
{
    for (int i = 0; i < COUNT(places); i++) {
        if (strcmp(places[i].name, s->name) != 0) continue;
        Buf text = {0};
        if (places[i].fill)
            package_fill(p, s, &text);
        else
            buf_write(&text, s->data, (size_t)s->bytes);
        add_text(p, places[i].path, &text, places[i].executable);
        return;
    }
    if (strcmp(s->name, p->ceiling.source.path) != 0) // with its kernel
        add(p, s->name, s->data, (size_t)s->bytes, false);
}

static void add_kernel(Package *p, const PackageKernel *k)
{
    const struct {
        const char *end;
        const Buf *text;
    } part[] = {{"co", &k->text}, {"ptx", &k->ptx}, {"cu", &k->cuda}, {"cubin", &k->cubin}};
    for (int i = 0; i < COUNT(part); i++)
        if (part[i].text->n)
            add(p, package_path(p, k, part[i].end), part[i].text->s, part[i].text->n, false);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const PackageFile *)a)->path, ((const PackageFile *)b)->path);
}

static void sort_files(Package *p)
{
    qsort(p->files.at, (size_t)p->files.n, sizeof *p->files.at, by_path);
}

// As `sha256sum -c` reads it; of every file but itself.
static void add_sums(Package *p)
{
    Buf sums = {0};
    sort_files(p);
    for (int i = 0; i < p->files.n; i++) {
        const PackageFile *f = &p->files.at[i];
        buf_printf(&sums, "%s  %s\n", sha256_hex(p->arena, f->data, f->n), f->path);
    }
    add_text(p, SUMS, &sums, false);
    sort_files(p);
}

static void collect(Package *p)
{
    Buf table = {0};
    for (int i = 0; i < package_source_count; i++) add_source(p, &package_sources[i]);
    for (int i = 0; i < p->kernels.n; i++) add_kernel(p, &p->kernels.at[i]);
    add_kernel(p, &p->ceiling);
    package_table(p, &table);
    add_text(p, "src/kernels.c", &table, false);
    add_sums(p);
}

// ---- the folder ---------------------------------------------------------------------------------
static bool refuse(Package *p, const char *path, const char *why)
{
    diag_error(p->diag, (Loc){0}, NULL, "cannot write %s: %s", path, why);
    return false;
}

static bool write_file(Package *p, const PackageFile *f)
{
    const char *path = arena_printf(p->arena, "%s/%s", p->folder, f->path);
    folder_make(arena_strndup(p->arena, path, (size_t)(strrchr(path, '/') - path)));
    const char *why = file_write(path, f->data, f->n);
    if (!why && chmod(path, f->executable ? 0755 : 0644)) why = strerror(errno);
    return !why || refuse(p, path, why);
}

// True also when there is no such folder.
static bool is_empty(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d) closedir(d);
    return n == 0;
}

static bool is_new(const Package *p, const char *path)
{
    for (int i = 0; i < p->files.n; i++)
        if (strcmp(p->files.at[i].path, path) == 0) return false;
    return true;
}

// Takes away what the package of before had and this one has not; all else that lies in the folder,
// such as results, stays. Only plain paths below the folder are followed.
static void remove_old(Package *p, const char *sums)
{
    for (const char *line = sums; *line; line += line[0] == '\n') {
        size_t n = strcspn(line, "\n");
        const char *path = n > 66 ? arena_strndup(p->arena, line + 66, n - 66) : "";
        if (*path && *path != '/' && !strstr(path, "..") && is_new(p, path))
            unlink(arena_printf(p->arena, "%s/%s", p->folder, path));
        line += n;
    }
}

// A folder that something lies in must be a package, and --force must say that it may go.
static bool make_room(Package *p)
{
    struct stat st;
    if (stat(p->folder, &st) == 0 && !S_ISDIR(st.st_mode))
        return refuse(p, p->folder, "it is not a folder");
    if (is_empty(p->folder)) return true;
    Buf sums = {0};
    const char *versions = arena_printf(p->arena, "%s/VERSIONS", p->folder);
    const char *why = access(versions, F_OK) ? "no such file" : NULL;
    if (!why) why = file_read(arena_printf(p->arena, "%s/%s", p->folder, SUMS), &sums, MAX_SUMS);
    if (why)
        diag_error(p->diag, (Loc){0}, "-o takes a new folder",
                   "the folder %s is not empty, and not a package", p->folder);
    else if (!p->force)
        diag_error(p->diag, (Loc){0},
                   "--force replaces its files; results and what else lies there stay",
                   "the folder %s is a package already", p->folder);
    else
        remove_old(p, sums.s ? sums.s : "");
    buf_free(&sums);
    return !why && p->force;
}

// ---- the archive --------------------------------------------------------------------------------
// Names in order, no owner, one time: the same package gives the same bytes.
static bool run_tar(Package *p, const char *parent, const char *name, const char *to)
{
    VEC(char *) words = {0};
    const char *const head[] = {"tar", "-C", parent, "--format=ustar", "--owner=0", "--group=0",
                                "--numeric-owner", "--mtime=@0", "--no-recursion",
                                "-I", "gzip -9n", "-cf", to};
    for (int i = 0; i < COUNT(head); i++) vec_push(p->arena, &words, (char *)head[i]);
    for (int i = 0; i < p->files.n; i++)
        vec_push(p->arena, &words, arena_printf(p->arena, "%s/%s", name, p->files.at[i].path));
    vec_push(p->arena, &words, NULL);
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        execvp(words.at[0], words.at);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// DIR.tar.gz and DIR.tar.gz.sha256 beside the folder.
static bool write_archive(Package *p)
{
    const char *slash = strrchr(p->folder, '/');
    size_t above = slash ? (size_t)(slash - p->folder) : 0;
    const char *parent = slash ? arena_strndup(p->arena, p->folder, above) : ".";
    const char *name = slash ? slash + 1 : p->folder;
    const char *path = arena_printf(p->arena, "%s.tar.gz", p->folder);
    const char *part = arena_printf(p->arena, "%s.part", path);
    Buf bytes = {0};
    const char *why = NULL;
    if (!run_tar(p, *parent ? parent : "/", name, part)) why = "tar and gzip could not make it";
    if (!why) why = file_read(part, &bytes, (size_t)1 << 30);
    const char *sum = why ? "" : sha256_hex(p->arena, bytes.s, bytes.n);
    buf_free(&bytes);
    if (!why && rename(part, path)) why = strerror(errno);
    if (why) {
        unlink(part);
        diag_error(p->diag, (Loc){0}, "the folder is complete; --no-archive makes it alone",
                   "cannot write %s: %s", path, why);
        return false;
    }
    const char *line = arena_printf(p->arena, "%s  %s.tar.gz\n", sum, name);
    const char *sums = arena_printf(p->arena, "%s.sha256", path);
    why = file_write(sums, line, strlen(line));
    return !why || refuse(p, sums, why);
}

bool package_write(Package *p)
{
    collect(p);
    if (!make_room(p)) return false;
    for (int i = 0; i < p->files.n; i++)
        if (!write_file(p, &p->files.at[i])) return false;
    return !p->archive || write_archive(p);
}
