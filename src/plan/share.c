/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/share.h"

#include "plan/triangular.h"
#include "select/rates.h"

/* Not libm's: no more than this is needed of it. */
static double larger(double a, double b) { return a > b ? a : b; }
static int64_t nearest(double x) { return (int64_t)(x + 0.5); }

double tb_share_bytes_seconds(double flops, double up_bytes, double down_bytes, double flops_per_s,
                              double link_bytes_per_s) {
  const double link = tb_link_bytes_per_s(link_bytes_per_s);
  return larger(flops / flops_per_s, larger(up_bytes / link, down_bytes / link));
}

double tb_share_alone_seconds(const struct tb_call *call, double flops_per_s, double link_bytes_per_s) {
  const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
  const double bytes = (double)tb_call_bytes(call), down = bytes * m * n;
  const double up = call->recipe == TB_MULTIPLY ? bytes * (m * k + k * n) : down;
  return tb_share_bytes_seconds(tb_call_flops(call), up, down, flops_per_s, link_bytes_per_s);
}

double tb_share_common_seconds(const struct tb_call *call, double link_bytes_per_s) {
  const double k = (double)call->k;
  if (call->recipe == TB_MULTIPLY) return 0;
  return (double)tb_call_bytes(call) * k * k / 2 / tb_link_bytes_per_s(link_bytes_per_s);
}

bool tb_share_pays(double alone_seconds, int gpus, double open_seconds, double *saved_seconds) {
  if (gpus < 2 || !(alone_seconds >= TB_SHARE_SECONDS)) return false;
  if (!(open_seconds > 0)) return true;
  *saved_seconds += alone_seconds * TB_SHARE_SAVES;
  return *saved_seconds >= open_seconds;
}

int64_t tb_share_piece(const struct tb_call *call) {
  return call->recipe == TB_MULTIPLY ? TB_SHARE_PIECE_ELEMS : TB_TRIANGULAR_BLOCK_STEP;
}

int64_t tb_share_pieces(const struct tb_call *call) {
  return tb_ceil_div(tb_share_by_columns(call) ? call->n : call->m, tb_share_piece(call));
}

void tb_share_weigh(const struct tb_pace *const pace[], int count, double weight[]) {
  double all = 0;
  for (int i = 0; i < count; i++) all += pace[i]->flops_per_s;
  for (int i = 0; i < count; i++) {
    weight[i] = pace[i]->flops_per_s;
    if (weight[i] >= TB_SHARE_LEAST * all) continue;
    weight[i] = pace[i]->left_out >= TB_SHARE_RETRY_CALLS ? TB_SHARE_LEAST * all : 0;
  }
}

void tb_share_cut(int64_t side, int64_t piece, const double weight[], int count, int64_t run[]) {
  const int64_t pieces = (side + piece - 1) / piece;
  double all = 0, so_far = 0;
  int last = 0; /* of those that get anything; it takes what is left, however the sums were rounded */
  for (int i = 0; i < count; i++) {
    all += weight[i];
    if (weight[i] > 0) last = i;
  }
  int64_t begin = 0;
  for (int i = 0; i < count; i++) {
    so_far += weight[i];
    int64_t end = nearest((double)pieces * (so_far / all)) * piece;
    if (end > side || i >= last) end = side;
    run[i] = end - begin;
    begin = end;
  }
}

/* A run that is an eighth longer than it should be takes an eighth longer; to bring its operands up again takes most of
 * it. */
#define NEAR_SHARE 8

bool tb_share_is_near(const int64_t run[], const int64_t before[], int count, int64_t piece) {
  for (int i = 0; i < count; i++) {
    const int64_t apart = run[i] > before[i] ? run[i] - before[i] : before[i] - run[i];
    if ((run[i] == 0) != (before[i] == 0) || apart > tb_max(piece, before[i] / NEAR_SHARE)) return false;
  }
  return true;
}

/* Half of what a device shows in a call is believed at once. First all paces are brought to the level of this call,
 * whose shape may be one that every device is slower at. */
void tb_share_learn(struct tb_pace *const pace[], int count, const double flops[], const double seconds[]) {
  double seen = 0, thought = 0;
  for (int i = 0; i < count; i++)
    if (flops[i] > 0 && seconds[i] > 0) {
      seen += flops[i] / seconds[i];
      thought += pace[i]->flops_per_s;
    }
  if (!(seen > 0 && thought > 0)) return;
  for (int i = 0; i < count; i++) {
    struct tb_pace *p = pace[i];
    p->flops_per_s *= seen / thought;
    const bool had_a_share = flops[i] > 0 && seconds[i] > 0;
    if (had_a_share) p->flops_per_s = (p->flops_per_s + flops[i] / seconds[i]) / 2;
    p->left_out = had_a_share ? 0 : p->left_out + 1;
  }
}
