#include "convolve.h"

#include "x86.h"

/* The best instruction set that this build has, if any. */
#if REFOLD_X86_AVX512VNNI
static const refold_x86_convolver *const conv2d = &refold_x86_conv2d_avx512vnni;
static const refold_x86_convolver *const dwconv2d = &refold_x86_dwconv2d_avx512vnni;
#elif REFOLD_X86_AVX2
static const refold_x86_convolver *const conv2d = &refold_x86_conv2d_avx2;
static const refold_x86_convolver *const dwconv2d = &refold_x86_dwconv2d_avx2;
#else
static const refold_x86_convolver *const conv2d = NULL;
static const refold_x86_convolver *const dwconv2d = NULL;
#endif

/* A convolution as the driver sees it, and how its slabs are laid out. */
typedef struct convolution {
    const refold_x86_convolver *isa;
    refold_conv2d_params p;
    refold_x86_window window;
    int32_t channels;      /* of an input pixel, padded */
    int32_t columns;       /* of a slab row */
    size_t row_bytes;
    int32_t rows;          /* output rows that one slab serves */
} convolution;

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Input rows, or columns, that `outputs` of them need. */
static int32_t span(int32_t outputs, int32_t stride, int32_t kernel, int32_t dilation)
{
    return (outputs - 1) * stride + (kernel - 1) * dilation + 1;
}

static void lay_out(convolution *c)
{
    const refold_conv2d_params *p = &c->p;
    const int32_t align = c->isa->align;
    refold_x86_window *w = &c->window;

    c->channels = (p->in.c + align - 1) / align * align;
    c->columns = span(p->out.w, p->stride_w, p->kernel_w, p->dilation_w);
    const ptrdiff_t pixel_bytes = (ptrdiff_t)c->channels * c->isa->element_bytes;
    c->row_bytes = (size_t)(c->columns * pixel_bytes);

    const bool whole_row = p->dilation_w == 1 && !c->isa->depthwise;
    w->pixel = p->stride_w * pixel_bytes;
    w->row = p->dilation_h * (ptrdiff_t)c->row_bytes;
    w->tap = p->dilation_w * pixel_bytes;
    w->rows = p->kernel_h;
    w->taps = whole_row ? 1 : p->kernel_w;
    w->groups = (whole_row ? p->kernel_w : 1) * c->channels / c->isa->group;
    w->width = p->out.w;
    w->stride = p->out.c;
}

/* A tile that overhangs its row reads past the slab's last pixel. */
static size_t slab_bytes(const convolution *c, int32_t rows)
{
    const refold_conv2d_params *p = &c->p;
    return (size_t)span(rows, p->stride_h, p->kernel_h, p->dilation_h) * c->row_bytes
         + (REFOLD_X86_TILE - 1) * (size_t)c->window.pixel;
}

/* A pointwise convolution sees no rows: one long row fills the tiles better. */
static bool flatten(convolution *c)
{
    refold_conv2d_params *p = &c->p;
    const uint32_t pixels = (uint32_t)p->in.h * p->in.w;
    if (p->kernel_h != 1 || p->kernel_w != 1 || p->stride_h != 1 || p->stride_w != 1
        || p->in.h != p->out.h || p->in.w != p->out.w || pixels > UINT16_MAX)
        return false;
    p->in.h = p->out.h = 1;
    p->in.w = p->out.w = (uint16_t)pixels;
    return true;
}

static bool plan(convolution *c, const refold_conv2d_params *params)
{
    c->p = *params;
    if (flatten(c)) {
        lay_out(c);
        if (slab_bytes(c, 1) > REFOLD_X86_SLAB_BYTES)
            c->p = *params;
    }
    lay_out(c);
    c->rows = c->p.out.h;
    while (c->rows > 1 && slab_bytes(c, c->rows) > REFOLD_X86_SLAB_BYTES)
        c->rows--;
    return slab_bytes(c, c->rows) <= REFOLD_X86_SLAB_BYTES
        && c->isa->packed_bytes(&c->p) <= REFOLD_X86_PACK_BYTES;
}

static void fill_row(const convolution *c, uint8_t *row, const int8_t *in, int32_t y)
{
    const refold_conv2d_params *p = &c->p;
    const int32_t pixels = smaller(c->columns - p->pad_left, p->in.w);
    const size_t pixel_bytes = (size_t)c->channels * (size_t)c->isa->element_bytes;

    c->isa->pad(row, (size_t)c->columns * (size_t)c->channels, p->zero_point);
    if (y >= 0 && y < p->in.h && pixels > 0)
        c->isa->convert(row + p->pad_left * pixel_bytes,
                        in + (ptrdiff_t)y * p->in.w * p->in.c, pixels, p->in.c,
                        c->channels, p->zero_point);
}

/* The input of output rows [first, first + rows). */
static void fill_slab(const convolution *c, uint8_t *slab, const int8_t *in,
                      int32_t first, int32_t rows)
{
    const refold_conv2d_params *p = &c->p;
    const int32_t top = first * p->stride_h - p->pad_top;
    const int32_t count = span(rows, p->stride_h, p->kernel_h, p->dilation_h);
    for (int32_t i = 0; i < count; i++)
        fill_row(c, slab + (size_t)i * c->row_bytes, in, top + i);
}

static void open_block(refold_x86_block *block, const refold_requant *requant,
                       const refold_moments *moments)
{
    for (int32_t i = 0; i < REFOLD_X86_BLOCK; i++) {
        const bool used = i < block->count;
        block->m[i] = used ? requant->m[block->first + i] : 0;
        block->b[i] = used ? requant->b[block->first + i] : 0;
        block->s1[i] = 0;
        block->low[i] = block->high[i] = 0;
    }
    block->shift = requant->shift;
    block->lo = requant->lo;
    block->hi = requant->hi;
    block->moments = moments != NULL;
    block->moments_shift = moments != NULL ? moments->shift : 0;
}

static void add_moments(const refold_x86_block *block, const refold_moments *moments)
{
    int64_t *restrict s1 = moments->s1 + block->first;
    int64_t *restrict s2 = moments->s2 + block->first;
    for (int32_t i = 0; i < block->count; i++) {
        const uint32_t rest = block->low[i] - (block->high[i] << 16);
        s1[i] += block->s1[i];
        s2[i] += ((int64_t)block->high[i] << 16) + rest;
    }
}

/*
 * A slab holds at most REFOLD_X86_SLAB_BYTES / 4 = 2^15 pixels, the most that a
 * block's sums allow, because a pixel is at least one group of four bytes.
 */
static void run_block(const convolution *c, refold_x86_block *block,
                      const uint8_t *slab, int8_t *out, int32_t first, int32_t rows)
{
    const refold_conv2d_params *p = &c->p;
    if (c->isa->depthwise)
        slab += block->first * c->isa->element_bytes;
    for (int32_t y = 0; y < rows; y++) {
        const size_t at = (size_t)(first + y) * p->out.w * p->out.c;
        c->isa->row(&c->window, block, slab + (size_t)(y * p->stride_h) * c->row_bytes,
                    out == NULL ? NULL : out + at + block->first);
    }
}

/* False, and nothing written, where the slab or the packed weights do not fit. */
static bool convolve(const refold_x86_convolver *isa, const refold_conv2d_params *p,
                     const refold_requant *requant, const int8_t *in, int8_t *out,
                     const refold_moments *moments)
{
    uint8_t slab[REFOLD_X86_SLAB_BYTES] __attribute__((aligned(64)));
    uint8_t packed[REFOLD_X86_PACK_BYTES] __attribute__((aligned(64)));
    convolution c = {.isa = isa};
    refold_x86_block block = {.weights = packed};

    if (!plan(&c, p))
        return false;
    for (int32_t i = 0; moments != NULL && i < p->out.c; i++)
        moments->s1[i] = moments->s2[i] = 0;
    for (int32_t y = 0; y < c.p.out.h; y += c.rows) {
        const int32_t rows = smaller(c.rows, c.p.out.h - y);
        fill_slab(&c, slab, in, y, rows);
        for (int32_t first = 0; first < p->out.c; first += isa->block) {
            block.first = first;
            block.count = smaller(isa->block, p->out.c - first);
            open_block(&block, requant, moments);
            isa->pack(&c.p, packed, &block);
            run_block(&c, &block, slab, out, y, rows);
            if (moments != NULL)
                add_moments(&block, moments);
        }
    }
    return true;
}

bool refold_conv2d_x86(const refold_conv2d_params *p, const refold_requant *requant,
                       const int8_t *in, int8_t *out, void *scratch,
                       const refold_moments *moments)
{
    (void)scratch;
    return conv2d != NULL && p->groups == 1
        && convolve(conv2d, p, requant, in, out, moments);
}

bool refold_dwconv2d_x86(const refold_conv2d_params *p, const refold_requant *requant,
                         const int8_t *in, int8_t *out, void *scratch,
                         const refold_moments *moments)
{
    (void)scratch;
    return dwconv2d != NULL && p->groups == p->in.c && p->in.c == p->out.c
        && convolve(dwconv2d, p, requant, in, out, moments);
}
