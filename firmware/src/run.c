/*
 * From the runtime's uniform call to each operator's own arguments.
 *
 * With -ffunction-sections a firmware links only the operators that its model
 * names here.
 */
#include <string.h>

#include "refold/kernels.h"

static const refold_requant *table_of(const refold_call *call,
                                      const refold_conv2d_params *p)
{
    return call->requant ? call->requant : &p->requant;
}

void refold_run_conv2d(const refold_call *call)
{
    const refold_conv2d_params *p = call->params;

    refold_conv2d(p, table_of(call, p), call->in[0], call->out, call->scratch,
                  call->moments);
}

void refold_run_dwconv2d(const refold_call *call)
{
    const refold_conv2d_params *p = call->params;

    refold_dwconv2d(p, table_of(call, p), call->in[0], call->out, call->scratch,
                    call->moments);
}

void refold_run_dense(const refold_call *call)
{
    refold_dense(call->params, call->in[0], call->out);
}

void refold_run_dense_s32(const refold_call *call)
{
    refold_dense_s32(call->params, call->in[0], call->out);
}

void refold_run_add(const refold_call *call)
{
    refold_add(call->params, call->in[0], call->in[1], call->out);
}

void refold_run_mul(const refold_call *call)
{
    refold_mul(call->params, call->in[0], call->in[1], call->out);
}

void refold_run_max_pool(const refold_call *call)
{
    refold_max_pool(call->params, call->in[0], call->out);
}

void refold_run_avg_pool(const refold_call *call)
{
    refold_avg_pool(call->params, call->in[0], call->out);
}

void refold_run_concat(const refold_call *call)
{
    refold_concat(call->params, call->in, call->out);
}

void refold_run_pick(const refold_call *call)
{
    refold_pick(call->params, call->in[0], call->out);
}

void refold_run_table(const refold_call *call)
{
    refold_table(call->params, call->in[0], call->out);
}

void refold_run_stored(const refold_call *call)
{
    const refold_stored_params *p = call->params;

    memcpy(call->out, p->values, p->count);
}
