/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C++ jobs of bench/run programs: expressions that make a temporary for each product, and four threads that call.
 *
 *   jobs [--short] [--budget SECONDS]
 *
 * Linked with OpenBLAS. Runs jobs and prints results as bench/jobs.py does; see there. No job knows of TileBLAS.
 */
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tileblas.h"

extern "C" void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                            int);

namespace {

const int RUNS = 5, LEAST_RUNS = 2; /* behind the first */
const double LONG_S = 3;            /* a first run without TileBLAS that takes longer is the only one */

/* ---- TileBLAS, where it is preloaded ---- */

/* A function of tileblas.h; nullptr: it is not there. */
template <typename Function> Function *of_library(const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

double product_seconds() {
  static const auto get = of_library<uint64_t(tileblas_stats *, uint64_t)>("tileblas_stats_get_sized");
  tileblas_stats stats = {};
  if (get) get(&stats, sizeof stats);
  return stats.gpu_seconds + stats.cpu_seconds;
}

/* False: there is no library to be asked. */
bool set_verbose(bool on) {
  static const auto set = of_library<int(const char *, const char *)>("tileblas_option_set");
  return set && set("TILEBLAS_VERBOSE", on ? "1" : "0") == 0;
}

/* ---- measuring ---- */

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct job {
  std::string name;
  int callers;
  std::function<double()> run; /* returns a number by which the result can be told */
};

void measure(const job &job, double budget_s) {
  std::vector<double> walls, products;
  const bool ours = set_verbose(false);
  double check;
  for (const double begun = now_s();;) {
    const double before = product_seconds(), started = now_s();
    check = job.run();
    walls.push_back(now_s() - started);
    products.push_back(product_seconds() - before);
    if (!ours && walls[0] > LONG_S) break;
    if (walls.size() > RUNS || (walls.size() > LEAST_RUNS && now_s() - begun > budget_s)) break;
  }
  if (ours) {
    fprintf(stderr, "job %s\n", job.name.c_str());
    set_verbose(true);
    job.run();
    set_verbose(false);
  }
  const double first_s = walls[0];
  if (walls.size() > 1) walls.erase(walls.begin()), products.erase(products.begin());
  printf("{\"job\": \"%s\", \"first_s\": %.9f, \"runs\": %zu, \"wall_s\": %.9f, \"products_s\": %.9f, \"callers\": %d, "
         "\"check\": [%.9g]}\n",
         job.name.c_str(), first_s, walls.size(), median(walls), median(products), job.callers, check);
  fflush(stdout);
}

/* ---- matrices as C++ programs write them ---- */

class matrix {
public:
  /* As those of most libraries: memory of which no page has been touched. */
  explicit matrix(int n) : n(n), x(new float[static_cast<size_t>(n) * n]) {}

  static matrix uniform(int n, unsigned seed) {
    matrix m(n);
    std::mt19937 draw(seed);
    for (size_t i = 0; i < static_cast<size_t>(n) * n; i++) m.x[i] = static_cast<float>(draw()) * 0x1p-32f - 0.5f;
    return m;
  }

  matrix operator*(const matrix &other) const {
    matrix product(n);
    multiply(other, product);
    return product;
  }

  void multiply(const matrix &other, matrix &into) const {
    const int column_major = 102, no_transpose = 111;
    cblas_sgemm(column_major, no_transpose, no_transpose, n, n, n, 1, x.get(), n, other.x.get(), n, 0, into.x.get(), n);
  }

  /* Of some elements; all of k went into each. */
  double sample() const {
    double sum = 0;
    for (int i = 0; i < n; i += std::max(1, n / 16)) sum += x[static_cast<size_t>(i) * n + (7 * i) % n];
    return sum;
  }

private:
  int n;
  std::unique_ptr<float[]> x;
};

/* A product of three, so that a temporary is an operand, too. */
job temporaries(int n) {
  const auto a = std::make_shared<matrix>(matrix::uniform(n, 1)), b = std::make_shared<matrix>(matrix::uniform(n, 2));
  return {"C++ temporaries, " + std::to_string(n), 1, [a, b] { return (*a * *b * *a).sample(); }};
}

/* Each thread with matrices of its own, into one that it uses again. */
job threads(int callers, int n, int calls) {
  struct own {
    matrix a, b, c;
  };
  const auto all = std::make_shared<std::vector<own>>();
  for (int i = 0; i < callers; i++)
    all->push_back({matrix::uniform(n, 1 + 2 * i), matrix::uniform(n, 2 + 2 * i), matrix::uniform(n, 0)});
  return {"C++ " + std::to_string(callers) + " threads, " + std::to_string(n), callers, [all, calls] {
            std::vector<std::thread> running;
            for (own &of : *all)
              running.emplace_back([&of, calls] {
                for (int i = 0; i < calls; i++) of.a.multiply(of.b, of.c);
              });
            for (std::thread &thread : running) thread.join();
            double sum = 0;
            for (const own &of : *all) sum += of.c.sample();
            return sum;
          }};
}

} // namespace

int main(int argc, char **argv) {
  bool is_short = false;
  double budget_s = 5;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--short") == 0)
      is_short = true;
    else if (strcmp(argv[i], "--budget") == 0 && i + 1 < argc)
      budget_s = atof(argv[++i]);
    else
      return fprintf(stderr, "usage: %s [--short] [--budget SECONDS]\n", argv[0]), 2;
  }
  const std::vector<int> cubes = is_short ? std::vector<int>{40} : std::vector<int>{4096, 8192};
  const int together = 4;
  for (int n : cubes) measure(temporaries(n), budget_s);
  if (is_short) return measure(threads(together, 40, 2), budget_s), EXIT_SUCCESS;
  const int sizes_and_calls[][2] = {{1024, 40}, {2048, 10}, {4096, 3}};
  for (const auto &[n, calls] : sizes_and_calls) measure(threads(together, n, calls), budget_s);
  return EXIT_SUCCESS;
}
