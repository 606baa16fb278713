/* Reading of commands: words separated by one space, taken from the buffer in place. */
#include "commands.h"

#include <string.h>

#include "line.h"

#define BYTES_PER_LINE 8

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Cut the first word off; *rest is what follows it, "" where nothing does. */
static char *next_word(char **rest)
{
    char *word = *rest;
    size_t length = strlen(word);
    char *space = memchr(word, ' ', length);

    if (space == NULL) {
        *rest = word + length;
    } else {
        *space = '\0';
        *rest = space + 1;
    }
    return word;
}

static bool same(const char *word, const char *name)
{
    size_t length = strlen(name);

    return strlen(word) == length && memcmp(word, name, length) == 0;
}

static bool read_number(const char *text, uint32_t *value)
{
    uint32_t sum = 0;

    if (*text == '\0')
        return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (sum > (UINT32_MAX - 9) / 10)
            return false;
        sum = 10 * sum + (uint32_t)(*text - '0');
    }
    *value = sum;
    return *text == '\0';
}

static void complain(refold_mlperf *m, const char *what, const char *detail)
{
    refold_mlperf_text(m, "e-[");
    refold_mlperf_text(m, what);
    refold_mlperf_text(m, detail);
    refold_mlperf_say(m, "]");
}

/* Another size would be another model's input. */
static void db_load(refold_mlperf *m, const char *size)
{
    uint32_t bytes;

    if (!read_number(size, &bytes) || bytes != m->model->input_bytes) {
        refold_mlperf_text(m, "e-[The model takes ");
        refold_mlperf_number(m, m->model->input_bytes);
        refold_mlperf_say(m, " bytes]");
        return;
    }
    m->expected = bytes;
    m->loaded = 0;
    refold_mlperf_text(m, "m-[Expecting ");
    refold_mlperf_number(m, bytes);
    refold_mlperf_say(m, " bytes]");
}

/* Checked as a whole first: a command that is refused stores nothing. */
static const char *refuse_hex(const refold_mlperf *m, const char *digits, size_t count)
{
    if (m->expected == 0)
        return "No db load before the bytes";
    if (count % 2 != 0)
        return "Insufficent number of hex digits"; /* the protocol spells it so */
    if (count / 2 > m->expected - m->loaded)
        return "More bytes than db load announced";
    for (size_t i = 0; i < count; i++)
        if (hex_digit(digits[i]) < 0)
            return "Bytes are not hexadecimal";
    return NULL;
}

static void db_bytes(refold_mlperf *m, const char *digits)
{
    size_t count = strlen(digits);
    const char *why = refuse_hex(m, digits, count);

    if (why != NULL) {
        complain(m, why, "");
        return;
    }
    for (size_t i = 0; i < count; i += 2)
        m->input[m->loaded++] =
            (uint8_t)(hex_digit(digits[i]) << 4 | hex_digit(digits[i + 1]));
    if (m->loaded == m->expected && count > 0)
        refold_mlperf_say(m, "m-load-done");
}

static void db_print(refold_mlperf *m)
{
    for (uint32_t i = 0; i < m->loaded; i++) {
        refold_mlperf_text(m, i % BYTES_PER_LINE == 0 ? "m-buffer-" : "-");
        refold_mlperf_hex(m, m->input[i]);
        if (i % BYTES_PER_LINE == BYTES_PER_LINE - 1 || i == m->loaded - 1)
            refold_mlperf_end_line(m);
    }
}

static bool db(refold_mlperf *m, char *rest)
{
    const char *word = next_word(&rest);

    if (same(word, "load"))
        db_load(m, rest);
    else if (same(word, "print"))
        db_print(m);
    else
        db_bytes(m, word);
    return true;
}

static bool infer(refold_mlperf *m, char *rest)
{
    const char *first = next_word(&rest);
    const char *second = next_word(&rest);
    uint32_t images = 1, warmups = 0;
    bool whole = m->expected != 0 && m->loaded == m->expected;

    if ((*first != '\0' && (!read_number(first, &images) || images == 0)) ||
        (*second != '\0' && !read_number(second, &warmups)) || *rest != '\0') {
        complain(m, "Expected infer N [W] with N > 0", "");
    } else if (!whole) {
        complain(m, "No input is loaded", "");
    } else {
        refold_mlperf_begin(m, images, warmups);
        return false;
    }
    return true;
}

static bool name(refold_mlperf *m, char *rest)
{
    (void)rest;
    refold_mlperf_text(m, "m-name-dut-[");
    refold_mlperf_text(m, m->setup->name);
    refold_mlperf_say(m, "]");
    return true;
}

static bool profile(refold_mlperf *m, char *rest)
{
    (void)rest;
    refold_mlperf_say(m, "m-profile-[ULPMark for tinyML Firmware V0.0.1]");
    refold_mlperf_text(m, "m-model-[");
    refold_mlperf_text(m, m->setup->model_id);
    refold_mlperf_say(m, "]");
    return true;
}

static bool timestamp(refold_mlperf *m, char *rest)
{
    (void)rest;
    refold_mlperf_timestamp(m);
    return true;
}

static bool results(refold_mlperf *m, char *rest)
{
    (void)rest;
    if (m->has_results)
        refold_mlperf_results(m);
    else
        complain(m, "No results before infer", "");
    return true;
}

static bool help(refold_mlperf *m, char *rest)
{
    (void)rest;
    refold_mlperf_say(m, "refold: name, profile, timestamp, results, help");
    refold_mlperf_say(m, "db load N, db HEX..., db print, infer N [W]");
    return true;
}

static const struct {
    const char *name;
    bool (*run)(refold_mlperf *m, char *rest);
} commands[] = {
    {"name", name}, {"profile", profile}, {"timestamp", timestamp}, {"db", db},
    {"infer", infer}, {"results", results}, {"help", help},
};

bool refold_mlperf_obey(refold_mlperf *m)
{
    char *rest = m->command;
    const char *word;

    if (m->overrun) {
        complain(m, "Command of more than 80 characters", "");
        return true;
    }
    word = next_word(&rest);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (same(word, commands[i].name))
            return commands[i].run(m, rest);
    complain(m, "Unknown command: ", word);
    return true;
}
