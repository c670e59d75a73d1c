/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All of level 3: symm, hemm, syrk, herk, syr2k, her2k, gemmt, trmm and trsm, with gemm beside them, by their Fortran
 * names; whoever owns a name at run time answers, as in e2e.c.
 *
 *   level3 resident|errors|calls [--csv FILE] [--types sdcz] [--routines syrk,trsm] [--budget SECONDS] [--rounds N]
 *          [--variant LLNN] [--sides N] [--label TEXT] [--draws N] [--peers auto|none] ORDER...
 *
 * resident   operands on the GPU, beside cuBLAS and our own gemm; run with libtileblas.so.0 preloaded
 * errors     the errors of one routine of each shape on all kinds of data, beside cuBLAS's and OpenBLAS's; likewise
 * calls      whole calls from and to warm ordinary memory, by OpenBLAS or whatever is preloaded
 *
 * Lines are appended to the CSV. The variant is side, triangle, transpose and diagonal; --sides: columns of B, on the
 * right rows, or the length of sums. Times are medians of rounds behind a first call: of N, or of as many as the budget
 * has; of calls with --rounds 0 the first one's. Every result is checked in a sample of its rows and columns. Status 1:
 * a wrong one of ours, or a failure.
 */
#include "level3.h"

#include <dlfcn.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_ROUNDS = 2, MOST_ROUNDS = 51 };

bool tb_level3_wants(const struct tb_level3_options *o, const struct tb_level3_routine *routine, enum tb_type type) {
  if (routine->hermitian && !tb_type_is_complex(type)) return false;
  const size_t length = strlen(routine->name);
  if (strcmp(o->routines, "all") == 0) return true;
  for (const char *at = o->routines; at != NULL; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, routine->name, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
  return false;
}

/* ---- calls ---- */

static double call_seconds(const struct tb_level3 *x, tb_level3_function *function) {
  const double begun = tb_now_s();
  tb_level3_call(x, function, x->a, x->b, x->c);
  return tb_now_s() - begun;
}

/* Median seconds; C is there as the last call has left it. */
static double measure(const struct tb_level3_options *o, const struct tb_level3 *x, tb_level3_function *function,
                      int *rounds) {
  double seconds[MOST_ROUNDS];
  const int least = o->rounds > 0 ? o->rounds : LEAST_ROUNDS, most = o->rounds > 0 ? o->rounds : MOST_ROUNDS;
  tb_level3_prepare_c(x);
  seconds[0] = call_seconds(x, function);
  *rounds = 0;
  if (o->rounds == 0) return seconds[0];
  const double end = tb_now_s() + o->budget_s;
  for (; *rounds < least || (*rounds < most && tb_now_s() < end); ++*rounds) {
    tb_level3_prepare_c(x);
    seconds[*rounds] = call_seconds(x, function);
  }
  return tb_median(seconds, *rounds);
}

static const char *owner_of(tb_level3_function *function) {
  Dl_info owner;
  if (!dladdr((void *)function, &owner)) return "-";
  const char *const slash = strrchr(owner.dli_fname, '/');
  return slash ? slash + 1 : owner.dli_fname;
}

static bool measure_call(const struct tb_level3_options *o, const struct tb_level3 *x, int order, int sides) {
  int rounds;
  tb_level3_function *const function = tb_level3_find(RTLD_DEFAULT, x);
  const char letter = tb_type_letter(x->type), *const name = x->routine->name;
  if (function == NULL) return fprintf(stderr, "peer missing: %s has no %c%s\n", o->label, letter, name), true;
  const double seconds = measure(o, x, function, &rounds), tflops = 1e-12 * tb_level3_flops(x) / seconds;
  const double error_u = tb_level3_error(x).max_u;
  const char variant[] = {"LR"[x->right], "LU"[x->upper], x -> trans, "NU"[x->unit], '\0'};
  printf("%-18s %c%-5s %s %6d x %6d  median %10.3f ms of %d  %8.3f TFLOP/s  error %.2f u  (%s)\n", o->label, letter,
         name, variant, order, sides, 1e3 * seconds, rounds, tflops, error_u, owner_of(function));
  fflush(stdout);
  if (!(error_u <= tb_level3_bound_u(x))) {
    const bool ours = strncmp(owner_of(function), "libtileblas", strlen("libtileblas")) == 0;
    fprintf(stderr, "%s%s: WRONG RESULT: %c%s: error %g u, a right one has at most %g\n",
            ours ? "" : "peer missing: ", o->label, letter, name, error_u, tb_level3_bound_u(x));
    return !ours;
  }
  if (o->csv != NULL)
    fprintf(o->csv, "%s,%s,%c,%s,%s,%d,%d,%d,%.6g,%.6g,%.6g,%.6g,%.6g,%.3f\n", o->label, owner_of(function), letter,
            name, variant, order, sides, rounds, 1e3 * seconds, tflops, 1e-9 * tb_level3_flops(x),
            1e-9 * tb_level3_up_bytes(x), 1e-9 * tb_level3_down_bytes(x), error_u);
  return true;
}

static bool measure_size(const struct tb_level3_options *o, enum tb_type type, int order, int sides) {
  struct tb_level3 memory;
  bool all_right = true, plain = false;
  tb_level3_alloc(&memory, type, order, sides);
  for (int i = 0; i < TB_LEVEL3_ROUTINES; i++) {
    const struct tb_level3_routine *const routine = &tb_level3_routines[i];
    if (!tb_level3_wants(o, routine, type)) continue;
    struct tb_level3 x = tb_level3_make(routine, type, o->variant, order, sides);
    x.a = memory.a, x.b = memory.b, x.c = memory.c;
    if (!plain || routine->form == TB_FORM_TRSM) tb_level3_fill(&x, TB_UNIFORM, 0);
    plain = order == sides && routine->form != TB_FORM_TRSM && routine->form != TB_FORM_RANK_K; /* which has no B */
    all_right &= measure_call(o, &x, order, sides);
  }
  tb_level3_free(&memory);
  return all_right;
}

static bool measure_calls(const struct tb_level3_options *o) {
  bool all_right = true;
  if (o->csv != NULL && o->fresh_csv)
    fputs("label,owner,type,routine,variant,n,sides,rounds,ms,tflops,gflop,up_gb,down_gb,max_err_u\n", o->csv);
  for (const char *letter = o->types; *letter != '\0'; letter++)
    for (int i = 0; i < o->sizes; i++)
      all_right &= measure_size(o, (enum tb_type)(strchr("sdcz", *letter) - "sdcz"), o->size[i],
                                o->sides > 0 ? o->sides : o->size[i]);
  return all_right;
}

/* ---- options ---- */

static _Noreturn void usage(void) {
  fprintf(stderr, "usage: level3 resident|errors|calls [--csv FILE] [--types sdcz] [--routines NAME,...|all]\n"
                  "              [--budget SECONDS] [--rounds N] [--variant LLNN] [--sides N] [--label TEXT]\n"
                  "              [--draws N] [--peers auto|none] ORDER...\n");
  exit(2);
}

static bool variant_makes_sense(const char *v) {
  return strlen(v) == 4 && strchr("LR", v[0]) && strchr("LU", v[1]) && strchr("NTC", v[2]) && strchr("NU", v[3]);
}

static bool take_option(struct tb_level3_options *o, int option, const char **path) {
  if (option == 'c') *path = optarg;
  if (option == 't') o->types = optarg;
  if (option == 'r') o->routines = optarg;
  if (option == 'b') o->budget_s = atof(optarg);
  if (option == 'n') o->rounds = atoi(optarg);
  if (option == 'v') o->variant = optarg;
  if (option == 's') o->sides = atoi(optarg);
  if (option == 'l') o->label = optarg;
  if (option == 'd') o->draws = atoi(optarg);
  if (option == 'p') o->peers = strcmp(optarg, "none") != 0;
  return option != '?';
}

static void parse(struct tb_level3_options *o, int argc, char **argv, const char **path) {
  static const struct option option[] = {{"csv", 1, 0, 'c'},    {"types", 1, 0, 't'},  {"routines", 1, 0, 'r'},
                                         {"budget", 1, 0, 'b'}, {"rounds", 1, 0, 'n'}, {"variant", 1, 0, 'v'},
                                         {"sides", 1, 0, 's'},  {"label", 1, 0, 'l'},  {"draws", 1, 0, 'd'},
                                         {"peers", 1, 0, 'p'},  {0, 0, 0, 0}};
  *o = (struct tb_level3_options){.types = "sdcz",
                                  .routines = "all",
                                  .variant = "LLNN",
                                  .label = "-",
                                  .peers = true,
                                  .rounds = -1,
                                  .draws = 1,
                                  .budget_s = 0.2};
  for (int c; (c = getopt_long(argc, argv, "", option, NULL)) != -1;)
    if (!take_option(o, c, path)) usage();
  if (optind == argc || strspn(o->types, "sdcz") != strlen(o->types) || !variant_makes_sense(o->variant) ||
      o->rounds > MOST_ROUNDS || o->draws < 1)
    usage();
  for (; optind < argc; optind++) {
    if (o->sizes == TB_LEVEL3_SIZES || (o->size[o->sizes++] = atoi(argv[optind])) <= 0) usage();
  }
}

int main(int argc, char **argv) {
  const char *const part = argc > 1 ? argv[1] : "", *path = NULL;
  struct tb_level3_options o;
  const bool calls = strcmp(part, "calls") == 0, resident = strcmp(part, "resident") == 0;
  if (!calls && !resident && strcmp(part, "errors") != 0) usage();
  parse(&o, argc - 1, argv + 1, &path);
  if (path != NULL && (o.csv = fopen(path, "a")) == NULL) return perror(path), EXIT_FAILURE;
  o.fresh_csv = o.csv != NULL && fseek(o.csv, 0, SEEK_END) == 0 && ftell(o.csv) == 0;
  const bool all_right = calls ? measure_calls(&o) : resident ? tb_level3_resident(&o) : tb_level3_errors(&o);
  if (o.csv != NULL && fclose(o.csv) != 0) return perror(path), EXIT_FAILURE;
  return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
