/* What the page calls: where the pixels go, where the scores are, and one run. */
#include "digits.h"

static float image[DIGITS_IMAGE_COUNT], scores[DIGITS_OUTPUT_COUNT];

float *image_data(void);
float *scores_data(void);
int classify(void);

__attribute__((visibility("default"))) float *image_data(void) { return image; }
__attribute__((visibility("default"))) float *scores_data(void) { return scores; }
__attribute__((visibility("default"))) int classify(void) { return digits_init(0) != 0 ? 2 : digits_run(image, scores); }

/* Compilers turn loops into these. */
void *memset(void *to, int value, __SIZE_TYPE__ count);
void *memset(void *to, int value, __SIZE_TYPE__ count) {
  for (volatile unsigned char *p = to; count > 0; --count) *p++ = (unsigned char)value;
  return to;
}
void *memcpy(void *restrict to, const void *restrict from, __SIZE_TYPE__ count);
void *memcpy(void *restrict to, const void *restrict from, __SIZE_TYPE__ count) {
  const unsigned char *source = from;
  for (volatile unsigned char *p = to; count > 0; --count) *p++ = *source++;
  return to;
}
