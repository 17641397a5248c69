// contract_find.c - what is asked of a contract that was read, or filled by a table: its entries by the
// name of a parameter. Needs no parser.
#include "contract.h"

#include <string.h>

const char *contract_input(const Contract *c, const char *param)
{
    for (int i = 0; c && i < c->inputs.n; i++)
        if (!strcmp(c->inputs.at[i].name, param)) return c->inputs.at[i].spec;
    return NULL;
}

const ContractWith *contract_with(const Contract *c, const char *param)
{
    for (int i = 0; c && i < c->with.n; i++)
        if (!strcmp(c->with.at[i].param.name, param)) return &c->with.at[i];
    return NULL;
}

const ContractWorkspace *contract_workspace(const Contract *c, const char *param)
{
    for (int i = 0; c && i < c->workspaces.n; i++)
        if (!strcmp(c->workspaces.at[i].param.name, param)) return &c->workspaces.at[i];
    return NULL;
}
