/* Equations are those of Hansen's tutorial, arXiv 1604.00772v2; see cma.h. */
#include "cma.h"

#include <float.h>
#include <math.h>

#include "../fp32.h"
#include "exp32.h"
#include "random.h"
#include "rank.h"

/* Of a candidate's z: the mean itself, injected, has no direction to weigh. */
#define LEAST_SQUARE 1e-20f

/* Sums of the preliminary weights of one sign, eq. 49. */
typedef struct weight_sums {
    float sum;                 /* of |w'| */
    float effective;           /* sum^2 / sum of squares */
} weight_sums;

static weight_sums sum_weights(const float *weights, uint32_t first, uint32_t last)
{
    float sum = 0.0f;
    float squares = 0.0f;

    for (uint32_t i = first; i < last; i++) {
        sum = sum + weights[i];
        squares = squares + weights[i] * weights[i];
    }
    return (weight_sums){sum < 0.0f ? -sum : sum, (sum * sum) / squares};
}

/* Table 1, "Step-size control" and "Covariance matrix adaptation". */
static void set_rates(refold_cma_rates *rates, uint32_t dimension, float mu_eff)
{
    float d = (float)dimension;
    float boost = dimension <= REFOLD_FULL_DIMENSION ? 1.0f : (d + 2.0f) / 3.0f;
    float spread = sqrtf((mu_eff - 1.0f) / (d + 1.0f)) - 1.0f;

    rates->mu_eff = mu_eff;
    rates->c_sigma = (mu_eff + 2.0f) / (d + mu_eff + 5.0f);
    rates->d_sigma = 1.0f + 2.0f * refold_fmax(0.0f, spread) + rates->c_sigma;
    rates->c_c = (4.0f + mu_eff / d) / (d + 4.0f + 2.0f * mu_eff / d);
    rates->c_1 = refold_fmin(
        1.0f, boost * 2.0f / ((d + 1.3f) * (d + 1.3f) + mu_eff));
    rates->c_mu = refold_fmin(1.0f - rates->c_1,
                              boost * 2.0f * (0.25f + mu_eff + 1.0f / mu_eff - 2.0f) /
                                  ((d + 2.0f) * (d + 2.0f) + mu_eff));
    rates->chi = sqrtf(d) * (1.0f - 1.0f / (4.0f * d) + 1.0f / (21.0f * d * d));
}

/* Sum of the negative weights, eqs. 50 to 53. */
static float negative_sum(const refold_cma_rates *rates, uint32_t dimension,
                          float mu_eff_negative)
{
    float by_rates = 1.0f + rates->c_1 / rates->c_mu;
    float by_mass = 1.0f + 2.0f * mu_eff_negative / (rates->mu_eff + 2.0f);
    float by_definiteness =
        (1.0f - rates->c_1 - rates->c_mu) / ((float)dimension * rates->c_mu);

    return refold_fmin(refold_fmin(by_rates, by_mass), by_definiteness);
}

static void configure(refold_cma *cma)
{
    refold_cma_rates *rates = &cma->rates;
    uint32_t population = cma->config.population;
    uint32_t parents = population / 2;
    float middle = refold_log32((float)(population + 1) * 0.5f);

    for (uint32_t i = 0; i < population; i++)
        rates->weights[i] = middle - refold_log32((float)(i + 1));
    weight_sums positive = sum_weights(rates->weights, 0, parents);
    weight_sums negative = sum_weights(rates->weights, parents, population);

    set_rates(rates, cma->config.dimension, positive.effective);
    float mass = cma->config.active
                     ? negative_sum(rates, cma->config.dimension, negative.effective)
                     : 0.0f;
    for (uint32_t i = 0; i < population; i++)
        rates->weights[i] = i < parents ? rates->weights[i] / positive.sum
                                        : mass * (rates->weights[i] / negative.sum);
}

uint8_t refold_cma_default_population(uint32_t dimension)
{
    return (uint8_t)(4 + (int)(3.0f * refold_log32((float)dimension)));
}

void refold_cma_init(refold_cma *cma, const refold_cma_config *config,
                     float *memory)
{
    uint32_t d = config->dimension;

    cma->config = *config;
    configure(cma);
    cma->mean = memory;
    cma->path_sigma = cma->mean + d;
    cma->path_c = cma->path_sigma + d;
    cma->factor = cma->path_c + d;
    cma->injected = cma->factor + REFOLD_FACTOR_FLOATS(d);
    cma->z = cma->injected + REFOLD_CMA_INJECTED_MAX * d;
    cma->step = cma->z + d;
    cma->matrix = cma->step + d;
    cma->generation = 0;
    refold_cma_restart(cma, NULL, 1.0f);
}

void refold_cma_restart(refold_cma *cma, const float *mean, float sigma)
{
    uint32_t d = cma->config.dimension;

    for (uint32_t i = 0; i < d; i++) {
        cma->mean[i] = mean ? mean[i] : 0.0f;
        cma->path_sigma[i] = 0.0f;
        cma->path_c[i] = 0.0f;
    }
    refold_factor_clear(cma->factor, d);
    refold_factor_add_diagonal(cma->factor, d, 1.0f);
    cma->sigma = sigma;
    cma->path_decay = 1.0f;
    cma->change = FLT_MAX;
    cma->injected_count = 0;
}

bool refold_cma_inject(refold_cma *cma, const float *x)
{
    uint32_t d = cma->config.dimension;
    float *z = cma->injected + cma->injected_count * d;

    if (cma->injected_count == REFOLD_CMA_INJECTED_MAX ||
        cma->injected_count == cma->config.population)
        return false;
    for (uint32_t i = 0; i < d; i++)
        z[i] = (x[i] - cma->mean[i]) / cma->sigma;
    refold_factor_solve(cma->factor, d, z, z);
    cma->injected_count++;
    return true;
}

/* z of a candidate: x = mean + sigma A z. */
static void candidate(const refold_cma *cma, uint32_t index, float *z)
{
    uint32_t d = cma->config.dimension;
    const float *injected = cma->injected + index * d;
    refold_random stream = {cma->config.seed, REFOLD_RANDOM_CANDIDATE,
                            cma->generation, index};

    if (index >= cma->injected_count) {
        refold_random_normal(&stream, z, d);
        return;
    }
    for (uint32_t i = 0; i < d; i++)
        z[i] = injected[i];
}

void refold_cma_ask(refold_cma *cma, uint32_t index, float *x)
{
    uint32_t d = cma->config.dimension;

    candidate(cma, index, cma->z);
    refold_factor_apply(cma->factor, d, cma->z, cma->z);
    for (uint32_t i = 0; i < d; i++)
        x[i] = cma->mean[i] + cma->sigma * cma->z[i];
}

static float squared_length(const float *x, uint32_t d)
{
    float sum = 0.0f;

    for (uint32_t i = 0; i < d; i++)
        sum = sum + x[i] * x[i];
    return sum;
}

/* An injected point may lie far outside of the distribution: cut its z. */
static void cut(float *z, uint32_t dimension)
{
    float d = (float)dimension;
    float most = sqrtf(d) + 2.0f * d / (d + 2.0f);
    float length = sqrtf(squared_length(z, dimension));

    if (length > most) {
        for (uint32_t i = 0; i < dimension; i++)
            z[i] = z[i] * (most / length);
    }
}

/*
 * step = weighted mean of the better z, eq. 41; matrix = c_mu times the rank-mu
 * part of eq. 47, whose negative weights eq. 46 scales. Returns the sum of weights.
 */
static float recombine(refold_cma *cma, const uint8_t *order)
{
    uint32_t d = cma->config.dimension;
    float sum = 0.0f;

    for (uint32_t i = 0; i < d; i++)
        cma->step[i] = 0.0f;
    refold_factor_clear(cma->matrix, d);
    for (uint32_t rank = 0; rank < cma->config.population; rank++) {
        float weight = cma->rates.weights[rank];

        if (weight == 0.0f)
            continue;
        candidate(cma, order[rank], cma->z);
        if (order[rank] < cma->injected_count)
            cut(cma->z, d);
        sum = sum + weight;
        if (weight > 0.0f) {
            for (uint32_t i = 0; i < d; i++)
                cma->step[i] = cma->step[i] + weight * cma->z[i];
        } else {
            float square = refold_fmax(squared_length(cma->z, d), LEAST_SQUARE);
            weight = weight * ((float)d / square);
        }
        refold_factor_add_outer(cma->matrix, d, cma->rates.c_mu * weight, cma->z);
    }
    return sum;
}

static void advance_path(float *path, float rate, float gain, const float *step,
                         uint32_t d)
{
    for (uint32_t i = 0; i < d; i++)
        path[i] = (1.0f - rate) * path[i] + gain * step[i];
}

/* Eq. 42, and `change`. step = A z goes in. */
static void move_mean(refold_cma *cma)
{
    uint32_t d = cma->config.dimension;
    float before = sqrtf(squared_length(cma->mean, d));
    float moved = cma->sigma * sqrtf(squared_length(cma->step, d));

    for (uint32_t i = 0; i < d; i++)
        cma->mean[i] = cma->mean[i] + cma->sigma * cma->step[i];
    cma->change = before > 0.0f ? moved / before : FLT_MAX;
}

/* Eq. 43 and h_sigma below eq. 45. step = z goes in; returns |p_sigma| / chi. */
static float advance_path_sigma(refold_cma *cma, bool *stalls)
{
    const refold_cma_rates *rates = &cma->rates;
    uint32_t d = cma->config.dimension;
    float c = rates->c_sigma;

    advance_path(cma->path_sigma, c, sqrtf(c * (2.0f - c) * rates->mu_eff), cma->step,
                 d);
    cma->path_decay = cma->path_decay * ((1.0f - c) * (1.0f - c));
    float length = sqrtf(squared_length(cma->path_sigma, d)) / rates->chi;
    float bound = 1.4f + 2.0f / ((float)d + 1.0f);
    *stalls = !(length / sqrtf(1.0f - cma->path_decay) < bound);
    return length;
}

/* Eqs. 45 and 47: step = A z and the sums of recombine go in. */
static void adapt_covariance(refold_cma *cma, float weights, bool stalls)
{
    const refold_cma_rates *rates = &cma->rates;
    uint32_t d = cma->config.dimension;
    float c = rates->c_c;
    float gain = stalls ? 0.0f : sqrtf(c * (2.0f - c) * rates->mu_eff);
    float lost = stalls ? c * (2.0f - c) : 0.0f;

    advance_path(cma->path_c, c, gain, cma->step, d);
    refold_factor_solve(cma->factor, d, cma->path_c, cma->z);
    refold_factor_add_diagonal(cma->matrix, d,
                               1.0f - rates->c_1 * (1.0f - lost) -
                                   rates->c_mu * weights);
    refold_factor_add_outer(cma->matrix, d, rates->c_1, cma->z);
    refold_factor_multiply(cma->factor, cma->matrix, d);
}

void refold_cma_tell(refold_cma *cma, const float *losses)
{
    const refold_cma_rates *rates = &cma->rates;
    uint32_t d = cma->config.dimension;
    uint8_t order[REFOLD_CMA_POPULATION_MAX];
    bool stalls;

    refold_rank(losses, cma->config.population, order);
    float weights = recombine(cma, order);
    float length = advance_path_sigma(cma, &stalls);
    refold_factor_apply(cma->factor, d, cma->step, cma->step);
    move_mean(cma);
    adapt_covariance(cma, weights, stalls);
    float growth = (rates->c_sigma / rates->d_sigma) * (length - 1.0f); /* eq. 44 */
    cma->sigma = cma->sigma * refold_exp32(refold_fmin(growth, 1.0f));
    cma->injected_count = 0;
    cma->generation++;
}

bool refold_cma_has_settled(const refold_cma *cma, float epsilon)
{
    return cma->change < epsilon;
}
