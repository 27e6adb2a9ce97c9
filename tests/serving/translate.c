/* Translates lines through TensorFlow's C API, the loader that TensorFlow Serving uses.

   translate SAVED_MODEL OPS_LIBRARY INPUT TRANSLATION SCORE < lines

   INPUT, TRANSLATION and SCORE name tensors as signatures do (operation:number). Each line of
   the input gives a line: the score, a tab, the translation. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

#define MOST_LINES 1000

static void check(TF_Status *status, const char *what) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s: %s\n", what, TF_Message(status));
  exit(1);
}

static TF_Output find(TF_Graph *graph, char *name) {
  TF_Output output = {NULL, 0};
  char *colon = strrchr(name, ':');
  if (colon != NULL) {
    *colon = '\0';
    output.index = atoi(colon + 1);
  }
  output.oper = TF_GraphOperationByName(graph, name);
  if (output.oper == NULL) {
    fprintf(stderr, "there is no operation %s\n", name);
    exit(1);
  }
  return output;
}

static TF_Tensor *read_lines(void) {
  static char *lines[MOST_LINES];
  static ssize_t lengths[MOST_LINES];
  size_t room = 0;
  int64_t count = 0;
  while (count < MOST_LINES) {
    lines[count] = NULL;
    lengths[count] = getline(&lines[count], &room, stdin);
    room = 0;
    if (lengths[count] < 0) break;
    if (lengths[count] > 0 && lines[count][lengths[count] - 1] == '\n') lengths[count]--;
    count++;
  }
  TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, &count, 1, count * sizeof(TF_TString));
  TF_TString *strings = TF_TensorData(tensor);
  for (int64_t i = 0; i < count; i++) {
    TF_StringInit(&strings[i]);
    TF_StringCopy(&strings[i], lines[i], lengths[i]);
    free(lines[i]);
  }
  return tensor;
}

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "give SAVED_MODEL OPS_LIBRARY INPUT TRANSLATION SCORE\n");
    return 2;
  }
  TF_Status *status = TF_NewStatus();
  TF_Library *library = TF_LoadLibrary(argv[2], status);
  check(status, "TF_LoadLibrary");

  const char *tags[] = {"serve"};
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph,
                                                     NULL, status);
  check(status, "TF_LoadSessionFromSavedModel");

  TF_Output input = find(graph, argv[3]);
  TF_Output outputs[] = {find(graph, argv[4]), find(graph, argv[5])};
  TF_Tensor *source = read_lines();
  TF_Tensor *found[2] = {NULL, NULL};
  TF_SessionRun(session, NULL, &input, &source, 1, outputs, found, 2, NULL, 0, NULL, status);
  check(status, "TF_SessionRun");

  const TF_TString *translations = TF_TensorData(found[0]);
  const float *scores = TF_TensorData(found[1]);
  for (int64_t i = 0; i < TF_Dim(found[0], 0); i++) {
    printf("%.9g\t", scores[i]);
    fwrite(TF_StringGetDataPointer(&translations[i]), 1, TF_StringGetSize(&translations[i]),
           stdout);
    putchar('\n');
  }

  TF_CloseSession(session, status);
  check(status, "TF_CloseSession");
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteTensor(source);
  TF_DeleteTensor(found[0]);
  TF_DeleteTensor(found[1]);
  TF_DeleteLibraryHandle(library);
  TF_DeleteStatus(status);
  return 0;
}
