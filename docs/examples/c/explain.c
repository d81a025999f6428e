/* Explains an image with a file written by `gradskip-onnx build`, by ONNX Runtime's C API and nothing else.
 *
 *     explain explained.onnx photo.ppm map.pfm [CLASS]
 *
 * The image is a binary PPM (P6) of the size that the model takes: mean and std are applied here, as the file says. A
 * file with its preprocessing inside takes a PPM of any size. The map is written as a PFM, 32-bit floats. */

#include <math.h>
#include <onnxruntime_c_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const OrtApi *ort;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "error: %s: %s\n", what, why);
  exit(2);
}

static void check(OrtStatus *status) {
  if (status) fail("ONNX Runtime", ort->GetErrorMessage(status));
}

static void *room(size_t bytes) {
  void *made = malloc(bytes);
  if (!made) fail("memory", "not enough");
  return made;
}

/* The part of a JSON text behind "key": of the first object in which it stands, or NULL. The text is that of `build`,
 * which writes no such keys into strings. */
static const char *value_of(const char *text, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\": ", key);
  const char *found = text ? strstr(text, quoted) : NULL;
  return found ? found + strlen(quoted) : NULL;
}

/* The name behind a key of an object in the description, such as outputs, relevance. */
static char *name_of(const char *text, const char *object, const char *key) {
  const char *value = value_of(value_of(text, object), key);
  if (!value || *value++ != '"') fail("the file does not explain itself", key);
  size_t length = strcspn(value, "\"");
  char *name = room(length + 1);
  memcpy(name, value, length);
  name[length] = 0;
  return name;
}

/* The index of a class, -1 for the likeliest; `classes` is the text that says how many there are. */
static int64_t class_of(const char *word, const char *classes) {
  char *end;
  long long found = strtoll(word, &end, 10);
  if (!*word || *end || found < -1 || found >= (classes ? atoll(classes) : 0)) fail(word, "no class of this model");
  return found;
}

static uint8_t *read_ppm(const char *path, int64_t *width, int64_t *height) {
  FILE *file = fopen(path, "rb");
  int w, h, most;
  if (!file || fscanf(file, "P6 %d %d %d", &w, &h, &most) != 3 || most != 255 || w < 1 || h < 1 || w > 30000 ||
      h > 30000)
    fail(path, "no binary PPM (P6) of 8 bits; `magick photo.jpg photo.ppm` makes one");
  fgetc(file); /* the one blank behind the head */
  size_t size = (size_t)w * h * 3;
  uint8_t *pixels = room(size);
  if (fread(pixels, 1, size, file) != size) fail(path, "cut short");
  fclose(file);
  *width = w, *height = h;
  return pixels;
}

/* Rows from the bottom to the top, least significant byte first. */
static void write_pfm(const char *path, const float *map, int64_t width, int64_t height) {
  FILE *file = fopen(path, "wb");
  if (!file) fail(path, "cannot be written");
  fprintf(file, "Pf\n%lld %lld\n-1.0\n", (long long)width, (long long)height);
  for (int64_t row = height - 1; row >= 0; row--) fwrite(map + row * width, sizeof *map, (size_t)width, file);
  if (fclose(file)) fail(path, "cannot be written");
}

/* (1, 3, height, width): value / 255, less the mean, by the std. */
static float *normalised(const uint8_t *pixels, int64_t area, const char *description) {
  float mean[3], std[3], *made = room((size_t)area * 3 * sizeof *made);
  const char *settings = value_of(description, "preprocess");
  const char *means = value_of(settings, "mean"), *stds = value_of(settings, "std");
  if (!means || !stds || sscanf(means, "[%f, %f, %f]", mean, mean + 1, mean + 2) != 3 ||
      sscanf(stds, "[%f, %f, %f]", std, std + 1, std + 2) != 3)
    fail("the file", "does not say its mean and std");
  const char *order = value_of(settings, "channels");
  int reversed = order && !strncmp(order, "\"bgr\"", 5);
  for (int channel = 0; channel < 3; channel++)
    for (int64_t at = 0; at < area; at++)
      made[channel * area + at] =
          (pixels[at * 3 + (reversed ? 2 - channel : channel)] / 255.0f - mean[channel]) / std[channel];
  return made;
}

/* Rank and sizes of a tensor; the sizes of the unknown axes are -1. */
static size_t shape_of(const OrtTensorTypeAndShapeInfo *info, int64_t dims[8]) {
  size_t rank;
  check(ort->GetDimensionsCount(info, &rank));
  if (rank > 8) fail("a tensor", "has too many axes");
  check(ort->GetDimensions(info, dims, rank));
  return rank;
}

static OrtValue *image_tensor(OrtSession *session, OrtMemoryInfo *memory, const char *path, const char *description) {
  int64_t width, height, dims[8];
  uint8_t *pixels = read_ppm(path, &width, &height);
  OrtValue *made;
  OrtTypeInfo *type;
  const OrtTensorTypeAndShapeInfo *info;
  check(ort->SessionGetInputTypeInfo(session, 0, &type));
  check(ort->CastTypeInfoToTensorInfo(type, &info));
  size_t area = (size_t)(width * height);
  if (shape_of(info, dims) == 3) { /* preprocessing inside: bytes (height, width, 3) */
    int64_t shape[] = {height, width, 3};
    check(ort->CreateTensorWithDataAsOrtValue(memory, pixels, area * 3, shape, 3, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
                                              &made));
    return made;
  }
  if (dims[1] != 3) fail("the model", "takes its channels last; this program gives them first");
  if ((dims[2] > 0 && dims[2] != height) || (dims[3] > 0 && dims[3] != width)) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "the model takes %lldx%lld pixels", (long long)dims[3], (long long)dims[2]);
    fail(path, wanted);
  }
  int64_t shape[] = {1, 3, height, width};
  float *values = normalised(pixels, (int64_t)area, description);
  check(ort->CreateTensorWithDataAsOrtValue(memory, values, area * 3 * sizeof *values, shape, 4,
                                            ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &made));
  return made;
}

int main(int count, char **words) {
  if (count < 4) fail("usage", "explain explained.onnx photo.ppm map.pfm [CLASS]");
  const OrtApiBase *base = OrtGetApiBase();
  ort = base->GetApi(ORT_API_VERSION);
  if (!ort) fail("ONNX Runtime is older than its headers", base->GetVersionString());

  OrtEnv *env;
  OrtSessionOptions *options;
  OrtSession *session;
  OrtAllocator *allocator;
  OrtModelMetadata *metadata;
  OrtMemoryInfo *memory;
  char *description;
  check(ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "explain", &env));
  check(ort->CreateSessionOptions(&options));
  check(ort->CreateSession(env, words[1], options, &session));
  check(ort->GetAllocatorWithDefaultOptions(&allocator));
  check(ort->SessionGetModelMetadata(session, &metadata));
  check(ort->ModelMetadataLookupCustomMetadataMap(metadata, allocator, "gradskip_onnx", &description));
  check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  const char *built = value_of(description, "built");

  int64_t class = class_of(count > 4 ? words[4] : "-1", value_of(built, "classes")), one = 1;
  OrtValue *fed[2] = {image_tensor(session, memory, words[2], description), NULL}, *found[3] = {NULL, NULL, NULL};
  check(ort->CreateTensorWithDataAsOrtValue(memory, &class, sizeof class, &one, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
                                            &fed[1]));
  const char *inputs[] = {name_of(built, "inputs", "image"), name_of(built, "inputs", "target")};
  const char *outputs[] = {name_of(built, "outputs", "logits"), name_of(built, "outputs", "relevance"),
                           name_of(built, "outputs", "explained")};
  check(ort->Run(session, NULL, inputs, (const OrtValue *const *)fed, 2, outputs, 3, found));

  float *logits, *map;
  int64_t *explained, dims[8];
  OrtTensorTypeAndShapeInfo *info;
  check(ort->GetTensorMutableData(found[0], (void **)&logits));
  check(ort->GetTensorMutableData(found[1], (void **)&map));
  check(ort->GetTensorMutableData(found[2], (void **)&explained));
  check(ort->GetTensorTypeAndShape(found[1], &info));
  size_t rank = shape_of(info, dims);
  write_pfm(words[3], map, dims[rank - 1], dims[rank - 2]);

  check(ort->GetTensorTypeAndShape(found[0], &info));
  if (shape_of(info, dims) == 2) { /* classes of the image, not of its pixels */
    double sum = 0;
    for (int64_t at = 0; at < dims[1]; at++) sum += exp(logits[at] - logits[*explained]);
    printf("class %lld, logit %.4f, probability %.4f\n", (long long)*explained, logits[*explained], 1 / sum);
  } else {
    printf("class %lld\n", (long long)*explained);
  }
  return 0;
}
